"""The nodes of a run: processes with quick timers and small files, and what is looked at from outside."""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tests.damage.matrix.plan import PLACES

from barnabas.cli.log.verify import check_partition
from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError, CorruptRecordError
from barnabas.testing import Cluster, Node
from barnabas.testing import node as node_module
from barnabas.wire.records import batches

__all__ = ["Nodes", "Told"]

_QUICK = {
    "log.roll.ms": "6000",
    "log.index.interval.bytes": "1",
    "log.cleaner.enable": "false",
    "log.flush.offset.checkpoint.interval.ms": "2000",
    "replica.high.watermark.checkpoint.interval.ms": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "barnabas.scrub.interval.ms": "4000",
}
START_S = 120.0
"""A start waits so long: a machine that does other work too may need a minute."""
node_module.READY_SECONDS = START_S


class Told(NamedTuple):
    """One entry of a log in which a node names something damaged."""

    node: int
    event: str
    text: str


class Nodes:
    """`with Nodes(folder, 3) as nodes`: combined nodes on free ports.  A node that ended unasked is `gone`."""

    _entry = re.compile(
        r"^\S+ (?:WARNING|ERROR) +((?:log|replica|quorum|partition)\.[a-z-]+): .*", re.MULTILINE
    )
    """An entry of a log that may tell of damage, and the name of what it says."""
    _ordinary = re.compile(r"replica\.leader-lost")
    """Said of partitions without damage, too."""

    def __init__(self, folder: Path, count: int) -> None:
        self.count = count
        self.copies = count
        settings = {**_QUICK, "min.insync.replicas": "2" if count > 2 else "1"}
        settings["transaction.state.log.min.isr"] = settings["min.insync.replicas"]
        self._nodes = self._make(folder, settings)
        self._marks: dict[int, int] = {}

    def _make(self, folder: Path, settings: Mapping[str, str]) -> Sequence[Node]:
        return Cluster(settings, nodes=self.count, directory=str(folder)).nodes

    def __enter__(self) -> Nodes:
        try:
            if refused := self.start(range(1, self.count + 1)):
                raise BarnabasError("; ".join(refused.values()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in self._nodes:
            node.end(signal.SIGKILL)

    def __getitem__(self, number: int) -> Node:
        return self._nodes[number - 1]

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap for node in self._nodes)

    def data(self, number: int) -> Path:
        return Path(self[number].data)

    # -- what is done --

    def end(self, numbers: Sequence[int], sign: signal.Signals) -> None:
        """End these nodes at the same time, with one signal each: a second one cuts a clean stop short."""
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda number: self[number].end(sign), numbers))

    def start(self, numbers: Sequence[int]) -> dict[int, str]:
        """Start them; returns what each said that did not come up."""
        for number in numbers:
            self[number].launch()
        refused = {}
        for number in numbers:
            try:
                self[number].wait_ready()
            except BarnabasError as error:
                refused[number] = str(error)
        return refused

    # -- what is seen --

    def gone(self) -> list[int]:
        return [node.number for node in self._nodes if node.pid is None]

    def whole(self) -> bool:
        """Return whether every node runs, every replica is in sync, and every voter keeps up."""
        if self.gone():
            return False
        with Admin(self.bootstrap, timeout=5.0) as admin:
            if len(admin.describe_cluster().brokers) < self.count:
                return False
            rows = [p for topic in admin.topics(internal=True) for p in topic.partitions.values()]
            if not all(p.leader > 0 and len(p.isr) == len(p.replicas) for p in rows):
                return False
            quorum = admin.quorum()
        near = [voter.log_end_offset >= quorum.high_watermark - 2 for voter in quorum.voters]
        return len(near) == self.count and all(near)

    def placed(self, place: str, topic: str, partition: int) -> int:
        """Return the node that has this place now; on one node, that one."""
        with Admin(self.bootstrap, timeout=10.0) as admin:
            info = admin.describe_topic(topic).partitions[partition]
            leaders = dict(zip(PLACES[::2], (info.leader, admin.quorum().leader), strict=True))
        if place in leaders:
            return leaders[place]
        leader = info.leader if place == PLACES[1] else leaders[PLACES[2]]
        others = [node.number for node in self._nodes if node.number != leader]
        return others[-1] if others else leader

    def mark(self) -> None:
        """From here on `told` looks at what the nodes write."""
        self._marks = {node.number: len(node.log()) for node in self._nodes}

    def told(self, names: Sequence[str]) -> list[Told]:
        """Return the entries since the mark, warnings and errors, that name one of these."""
        found = []
        for node in self._nodes:
            for entry in self._entry.finditer(node.log()[self._marks[node.number] :]):
                text, event = entry[0], entry[1]
                if not self._ordinary.search(text) and any(name in text for name in names):
                    found.append(Told(node.number, event, text))
        return found

    def rotten(self) -> list[str]:
        """Return what is wrong on the disks of stopped nodes: damage, and replicas that differ."""
        problems = []
        content: dict[str, dict[int, dict[int, bytes]]] = {}
        for node in self._nodes:
            for folder in sorted(Path(node.data).iterdir()):
                if not any(folder.glob("*.log")):
                    continue
                check = check_partition(str(folder))
                if check.problem is not None:
                    problems.append(f"node {node.number}: {check.partition}: {check.problem}")
                content.setdefault(folder.name, {})[node.number] = _segments(folder)
        for name, logs in content.items():
            problems += [f"{name}: {words}" for words in _differences(logs)]
        return problems


def _segments(folder: Path) -> dict[int, bytes]:
    return {int(path.stem): path.read_bytes() for path in folder.glob("*.log") if path.stat().st_size}


def _differences(logs: dict[int, dict[int, bytes]]) -> list[str]:
    """Compare what any two replicas both have, batch by batch at each base offset."""
    flat = {number: _batches(segments) for number, segments in logs.items()}
    return [
        f"nodes {one} and {two} differ at offset {min(wrong)}"
        for one, two in itertools.combinations(sorted(flat), 2)
        if (wrong := [at for at in flat[one].keys() & flat[two].keys() if flat[one][at] != flat[two][at]])
    ]


def _batches(segments: dict[int, bytes]) -> dict[int, bytes]:
    found = {}
    for content in segments.values():
        with contextlib.suppress(CorruptRecordError):  # `check_partition` tells of it
            found.update(
                (header.base_offset, content[at : at + header.size]) for at, header in batches(content)
            )
    return found
