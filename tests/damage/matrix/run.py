"""One run: nodes start, traffic flows, one file is damaged as the seed says, and the facts are written down."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.damage.matrix.apache import ApacheNodes
from tests.damage.matrix.harm import Harmed, choose, damage, log_of, pick
from tests.damage.matrix.nodes import Nodes
from tests.damage.matrix.plan import ALL_KILLED, OLDER, PLACES, RUNNING, SMALL, STOPPED, Row, row_of
from tests.damage.matrix.traffic import Traffic
from tests.damage.matrix.verdict import judge

from barnabas.errors import BarnabasError

__all__ = ["KINDS", "run"]

KINDS: dict[str, type[Nodes]] = {"barnabas": Nodes, "apache": ApacheNodes}

READY_S, FOUND_S = 90.0, 30.0
GROWN_S, OLDER_S = 2.0, 5.0
"""Until each checkpoint was written; until a copy is an old one."""
MET_S, USED_S = 30.0, 3.0
"""In the first a running node reads all its segments, one a second; in the second it uses what it uses at all."""
WAITED_S = 90.0
"""A busy machine may need more than the 30 s that are promised; the figure says what it took."""
GRACE_S = 1.0
"""From the first who meets damage until nobody serves it."""


_OF_ELECTIONS = ("quorum-state", "epoch checkpoint")
"""Files that change with an election only."""


_SCRUBBED = ("active segment", "sealed segment", "index", "time index", "group log", "transaction log")
"""Files that a running node reads in the background."""


class _HarnessError(Exception):
    """Something that the harness needs did not come true."""


def run(seed: int, nodes: int, folder: Path, kind: str = "barnabas") -> dict[str, Any]:
    """Live one seed in `folder`; returns its facts, with the verdict."""
    row = row_of(seed)
    facts: dict[str, Any] = {
        "kind": kind, "seed": seed, "nodes": nodes, **row._asdict(), "victim": 0, "path": "", "size": 0,
        "acknowledged": 0, "lost": 0, "losses": {}, "twice": 0, "served_before": 0, "served_after": 0,
        "healed_s": None, "told": {}, "gone_by_itself": False, "refused": "", "gone": [], "rotten": [],
        "failed": "",
    }  # fmt: skip
    begun, load = time.monotonic(), os.getloadavg()[0]
    try:
        with KINDS[kind](folder, nodes) as cluster:
            _Run(seed, row, cluster, folder / "older", facts).live()
    except (_HarnessError, BarnabasError, OSError) as error:
        facts["failed"] = f"{type(error).__name__}: {error}"[:2000]
    facts["load"] = round(max(load, *os.getloadavg()[:2]) / (os.cpu_count() or 1), 1)
    facts["seconds"] = round(time.monotonic() - begun, 1)
    facts["verdict"] = judge(facts)
    return facts


def _until(look: Callable[[], Any], seconds: float) -> bool:
    """Wait for `look`, to which errors of the network mean no; whether it came true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(BarnabasError, OSError, KeyError):
            if look():
                return True
        time.sleep(0.1)
    return False


class _Run:
    def __init__(self, seed: int, row: Row, nodes: Nodes, older: Path, facts: dict[str, Any]) -> None:
        self._chance, self._row, self._nodes, self._older, self._facts = (
            random.Random(seed),
            row,
            nodes,
            older,
            facts,
        )
        self._log = log_of(row.file)

    def live(self) -> None:
        nodes, facts = self._nodes, self._facts
        self._need(nodes.whole, READY_S, "all nodes in one cluster")
        traffic, patient = Traffic(nodes.bootstrap, nodes.copies), False
        try:
            self._need(
                lambda: traffic.flows() and nodes.whole(), READY_S, "traffic of all kinds, all in sync"
            )
            self._grow()
            victim = facts["victim"] = self._victim()
            what = f"a file that {self._row.harm} would change ({self._row.file})"
            self._need(lambda: self._choose(victim) is not None, FOUND_S, what)
            nodes.mark()
            done, restarted = self._strike(victim)
            self._heal(victim, done, restarted, traffic)
            patient = self._serves()
        finally:
            traffic.end(patient=patient)
        facts["acknowledged"] = traffic.count
        facts["errors"] = dict(traffic.errors)
        if patient:
            self._compare(traffic)
        self._see(victim, done)

    def _need(self, look: Callable[[], Any], seconds: float, what: str) -> None:
        if not _until(look, seconds):
            raise _HarnessError(f"not within {seconds:.0f} s: {what}")

    def _grow(self) -> None:
        """Wait until the files are worth damaging; for an older copy, until there is one and it is old."""
        if self._row.harm != OLDER:
            time.sleep(GROWN_S)
            return
        nodes, file = self._nodes, self._row.file
        roots = [nodes.data(number) for number in range(1, nodes.count + 1)]
        self._need(lambda: all(pick(root, file, self._chance) for root in roots), FOUND_S, f"a first {file}")
        self._copy()
        if file in _OF_ELECTIONS:
            self._elect()
        else:
            time.sleep(OLDER_S)

    def _copy(self) -> None:
        """Copy all directories as they are now, while their nodes write."""
        for number in range(1, self._nodes.count + 1):
            with contextlib.suppress(shutil.Error):  # files that went meanwhile
                shutil.copytree(self._nodes.data(number), self._older / str(number))

    def _elect(self) -> None:
        """Stop and start who leads, so that epochs go on."""
        nodes = self._nodes
        for number in {nodes.placed(place, "events", 0) for place in PLACES[::2]}:
            nodes.end([number], signal.SIGTERM)
            if nodes.start([number]):
                raise _HarnessError(f"node {number} does not start again")
        self._need(nodes.whole, READY_S, "all in sync after elections")

    def _victim(self) -> int:
        topic, _, partition = self._log.rpartition("-")
        if topic.startswith("__cluster"):
            topic, partition = "events", "0"
        return self._nodes.placed(self._row.place, topic, int(partition))

    def _choose(self, victim: int) -> Harmed | None:
        row, chance = self._row, random.Random(self._facts["seed"])
        return choose(self._nodes.data(victim), self._older / str(victim), row.file, row.harm, chance)

    def _strike(self, victim: int) -> tuple[Harmed, float]:
        """End what the way says, do the damage, start again; when (seconds since 1970) damage may be met."""
        nodes, way = self._nodes, self._row.way
        if way == RUNNING:
            return self._damage(victim), float("inf")
        ended = list(range(1, nodes.count + 1)) if way == ALL_KILLED else [victim]
        nodes.end(ended, signal.SIGTERM if way == STOPPED else signal.SIGKILL)
        done = self._damage(victim)
        self._chance.shuffle(ended)
        self._restart(ended)
        return done, time.time()

    def _restart(self, ended: list[int]) -> None:
        self._began = time.monotonic()
        refused = self._nodes.start(ended)
        self._facts["refused"] = "; ".join(f"node {number}: {said}" for number, said in refused.items())[
            -2000:
        ]

    def _damage(self, victim: int) -> Harmed:
        root = self._nodes.data(victim)
        done = damage(root, self._older / str(victim), self._row.file, self._row.harm, self._chance)
        if done is None:
            raise _HarnessError(f"no file that {self._row.harm} would change ({self._row.file})")
        self._facts |= {"path": done.path, "size": done.size}
        self._began = time.monotonic()
        return done

    def _names(self, done: Harmed) -> list[str]:
        """What a line that tells of the damage has in it: the log, or the file of a directory."""
        return [self._log if "/" in done.path else done.path, Path(done.path).name]

    def _heal(self, victim: int, done: Harmed, restarted: float, traffic: Traffic) -> None:
        nodes, facts = self._nodes, self._facts
        names = self._names(done)
        scrubbed = self._row.file in _SCRUBBED
        met_s = MET_S if scrubbed else USED_S
        if self._row.way == RUNNING and not _until(lambda: nodes.told(names) or nodes.gone(), met_s):
            nodes.end([victim], signal.SIGTERM)  # nobody has met it yet: a start does
            self._restart([victim])
            restarted = time.time()
        met = min(restarted, time.time())
        facts["healed_s"] = self._healed()
        remade = done.path.endswith("index") and self._overwritten(victim, done)
        if scrubbed and not remade and not nodes.told(names):  # a clean start reads no more than ends
            if _until(lambda: nodes.told(names) or nodes.gone(), MET_S):
                self._began = time.monotonic()
                facts["healed_s"] = self._healed()
        facts["gone"] = nodes.gone()
        if self._serves():
            rounds = traffic.reading.rounds
            _until(lambda: traffic.reading.rounds > rounds + 2, FOUND_S)
        served = [at for at, _, _ in traffic.reading.served]
        facts["served_after"] = sum(at > met + GRACE_S for at in served)
        facts["served_before"] = len(served) - facts["served_after"]

    def _healed(self) -> float | None:
        """Wait until all are in sync; returns the seconds since the damage was met, None if that never comes."""
        nodes = self._nodes
        healed = _until(lambda: nodes.gone() or nodes.whole(), WAITED_S) and not nodes.gone()
        return round(time.monotonic() - self._began, 1) if healed else None

    def _serves(self) -> bool:
        """Return whether a majority of the nodes runs, so that what is lost can be judged."""
        return 2 * len(self._nodes.gone()) < self._nodes.count

    def _compare(self, traffic: Traffic) -> None:
        """Compare what was acknowledged with what is there; where a node is gone, if the others allow."""
        facts = self._facts
        try:
            losses = traffic.losses()
        except (BarnabasError, OSError) as error:
            few = self._nodes.count < 3
            if not (few or facts["gone"]):
                raise
            facts["lost"] += few  # (an only replica that is damaged may refuse what it cannot know)
            facts["errors"] = {**facts["errors"], str(error): 1}
            return
        facts |= {"losses": losses._asdict(), "lost": losses.lost, "twice": losses.twice}
        facts["served_after"] += losses.bad

    def _see(self, victim: int, done: Harmed) -> None:
        """Stop all, and look at what was told and at what is on the disks."""
        nodes, facts = self._nodes, self._facts
        facts["told"] = dict(
            Counter(f"{told.event} by {told.node}" for told in nodes.told(self._names(done)))
        )
        nodes.end([n for n in range(1, nodes.count + 1) if nodes[n].pid], signal.SIGTERM)
        facts["rotten"] = nodes.rotten()[:10]
        facts["gone_by_itself"] = self._overwritten(victim, done)

    def _overwritten(self, victim: int, done: Harmed) -> bool:
        """Return whether nothing is left of the damage: the file is another one now, or one that nobody reads.

        An older copy of a small file is what an earlier crash would have left: nodes live with it, and with an
        index that only ends early.
        """
        path = self._nodes.data(victim) / done.path
        if path.exists() != (done.left is not None) or (path.exists() and path.read_bytes() != done.left):
            return True
        newest = pick(self._nodes.data(victim), self._row.file, self._chance)
        superseded = self._row.file in ("producer snapshot", "metadata snapshot") and newest not in (
            None,
            path,
        )
        early = self._row.file.endswith("index") and done.ends_early
        return superseded or early or (self._row.harm == OLDER and self._row.file in SMALL)
