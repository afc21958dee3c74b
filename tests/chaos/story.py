"""One seed: which faults, in which order, under which traffic, and what came of it."""

from __future__ import annotations

import contextlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.chaos.cluster import Cluster, Node, UnsettledError, until
from tests.chaos.copying import COPY, Copying, differences
from tests.chaos.faults import KINDS, RARE, possible
from tests.chaos.ground import Ground, ground
from tests.chaos.syncs import Syncs
from tests.chaos.traffic import Java, Reader, Records, Writer, java_is_here, read_everything, value_of

from barnabas.errors import BarnabasError
from barnabas.sim.cluster.checker import check
from barnabas.wire.schemas.cluster import MetadataRequest

__all__ = ["Report", "run"]

AT_LEAST = 5
SLOW_SYNC_S = 1.0
TOPIC, PARTITIONS = "orders", 6
WRITERS, JAVA, COPIERS, RATE, JAVA_RATE = 2, 9, 2, 120.0, 100
FIRST_S = 60.0
"""Within this time each producer has written to every partition."""
LOST = ("lost write", "unseen", "vanished")
REORDERED = ("nonmonotonic send", "overtaken", "nonmonotonic poll", "int-nonmonotonic poll")


class Report(NamedTuple):
    """What came of a seed; `anomalies` in words."""

    seed: int
    nodes: int
    where: str
    faults: dict[str, int]
    seconds: float
    sent: int
    acknowledged: int
    failed: int
    read: int
    copied: int
    aborted: int
    renewed: int
    stuck: int
    lost: int
    twice: int
    reordered: int
    other: int
    longest_gap: float
    longest_sync: float
    anomalies: list[str]
    problem: str

    @property
    def ok(self) -> bool:
        return not (self.anomalies or self.problem or self.failed)


class World:
    """What a fault sees."""

    hello = MetadataRequest(topics=[])

    def __init__(self, seed: int, rng: random.Random, ground_: Ground, cluster: Cluster) -> None:
        self.seed, self.rng, self.ground, self.cluster = seed, rng, ground_, cluster
        self.topic = TOPIC

    @property
    def nodes(self) -> dict[int, Node]:
        return self.cluster.nodes

    @contextlib.contextmanager
    def hurt(self, *numbers: int) -> Iterator[None]:
        """These nodes are not asked meanwhile."""
        self.cluster.hurt.update(numbers)
        try:
            yield
        finally:
            self.cluster.hurt.difference_update(numbers)

    def some_node(self) -> Node:
        return self.nodes[self.rng.choice(sorted(self.nodes))]

    def some_leader(self) -> tuple[str, int]:
        """A partition that somebody leads, and who."""

        def look() -> list[tuple[str, int]]:
            found = self.cluster.partitions([self.topic])
            return [(f"{name}-{p.partition_index}", p.leader_id) for name, p in found if p.leader_id > 0]

        led = until(lambda: look() or None, 30, "a partition with a leader")
        return self.rng.choice(sorted(led))

    def settle(self, seconds: float) -> bool:
        """Wait until every replica is in sync; whether that came in time."""
        try:
            until(lambda: self.cluster.full([self.topic, COPY]), seconds, "all replicas in sync")
        except UnsettledError:
            return False
        return True


def draw(rng: random.Random, kinds: list[str], count: int) -> list[str]:
    """So many faults: of each of the kinds `AT_LEAST`, as far as there is room, the others as they come."""
    often = [kind for kind in kinds if kind not in RARE]
    drawn = (
        (often * AT_LEAST)[:count]
        if count >= AT_LEAST * len(often)
        else rng.sample(often * 2, min(count, 2 * len(often)))
    )
    drawn += [rng.choice(kinds) for _ in range(count - len(drawn))]
    rng.shuffle(drawn)
    return drawn


def run(
    seed: int, faults: int, folder: Path, say: Callable[[str], None], *, java: bool = True, nodes: int = 0
) -> Report:
    """Live one seed."""
    rng = random.Random(seed)
    count = nodes or rng.choice((3, 4, 4, 5))
    small = rng.randint(1, count)
    begun = time.monotonic()
    with ground(count) as here, contextlib.ExitStack() as ends:
        say(
            f"chaos seed {seed}: {count} nodes {here.name}, {PARTITIONS} partitions x 3 replicas, "
            "min.insync.replicas 2"
        )
        cluster = Cluster(here, folder, count, small)
        try:
            cluster.start()
            for topic in (TOPIC, COPY):
                cluster.create(topic, PARTITIONS)
            world = World(seed, rng, here, cluster)
            world.settle(30.0)
            return _live(world, faults, folder, say, ends, java=java and java_is_here(), begun=begun)
        finally:
            here.heal()
            cluster.close()


def _live(
    world: World,
    faults: int,
    folder: Path,
    say: Callable[[str], None],
    ends: contextlib.ExitStack,
    *,
    java: bool,
    begun: float,
) -> Report:
    records, cluster = Records(), world.cluster
    reader = Reader(records, cluster.bootstrap, TOPIC, PARTITIONS)
    writers = [Writer(records, n, cluster.bootstrap, TOPIC, PARTITIONS, RATE) for n in range(1, WRITERS + 1)]
    copying = Copying(COPIERS, world.seed, cluster.bootstrap, TOPIC, PARTITIONS)
    kafka = Java(records, JAVA, cluster.bootstrap, TOPIC, JAVA_RATE, folder) if java else None
    say(
        f"traffic: {WRITERS} librdkafka producers and a consumer, "
        f"{'a Java producer and consumer' if java else 'no Java here'}; idempotent, acks=all; "
        f"{COPIERS} members of a KIP-848 group copy it all in transactions"
    )
    if kafka is not None:
        ends.callback(kafka.close)
    disk = Syncs(folder / "sync")
    ends.callback(disk.end)
    for thread in (reader, disk, *writers):
        thread.start()
    copying.start()
    counts: Counter[str] = Counter()
    problem, longest = "", 0.0
    try:
        everybody = {*range(1, WRITERS + 1), *([] if kafka is None else [JAVA])}
        until(lambda: records.known_everywhere(everybody, PARTITIONS), FIRST_S, "records of all producers")
        time.sleep(2.0)
        plan = draw(world.rng, possible(world), faults)
        for number, kind in enumerate(plan, 1):
            moment = time.monotonic()
            what = KINDS[kind](world)
            counts[kind] += 1
            slow = "" if world.rng.random() < 0.3 or world.settle(20.0) else "; not all in sync yet"
            if (sync := disk.longest(moment)) > SLOW_SYNC_S:
                slow += f"; this disk synced nothing for {sync:.1f} s"
            gap = records.gap(moment, time.monotonic())
            longest = max(longest, gap)
            say(
                f"{moment - begun:6.1f}s {number:3}/{faults}  {kind:<19} {what}{slow}; longest gap {gap:.1f} s"
            )
            time.sleep(world.rng.uniform(0.2, 1.0))
        if not world.settle(60.0):
            problem = "the replicas did not come into sync within 60 s after the last fault"
    except (BarnabasError, OSError) as error:
        problem = str(error)
    world.ground.heal()
    times = longest, disk
    return _conclude(world, records, reader, writers, copying, kafka, counts, times, problem, begun, say)


def _conclude(
    world: World,
    records: Records,
    reader: Reader,
    writers: list[Writer],
    copying: Copying,
    kafka: Java | None,
    counts: Counter[str],
    times: tuple[float, Syncs],
    problem: str,
    begun: float,
    say: Callable[[str], None],
) -> Report:
    say(f"{time.monotonic() - begun:6.1f}s  the traffic ends; everything is read once more")
    for writer in writers:
        writer.end()
    if kafka is not None:
        kafka.end()
    reader.end()
    problem = problem or copying.end()
    found: dict[str, list[int]] = {}
    try:
        found = read_everything(records, world.cluster.bootstrap, TOPIC, PARTITIONS)
    except Exception as error:
        problem = problem or f"not everything could be read: {error}"
    copied, wrong = _copied(copying, found) if found else (0, [])
    failures = [reason for writer in writers for reason in writer.failures]
    sent, read = sum(writer.sent for writer in writers), reader.read
    if kafka is not None:
        sent += kafka.write_down(found)
        failures += kafka.failures
        read += kafka.read
    verdict = check(records.history)
    count = verdict.counts
    known = {*LOST, *REORDERED, "duplicate"}
    said = [*(str(anomaly) for anomaly in verdict.anomalies[:20]), *wrong]
    return Report(
        world.seed, len(world.nodes), world.ground.name, dict(counts), time.monotonic() - begun, sent,
        verdict.acknowledged, len(failures), read, copied, sum(one.aborted for one in copying.copiers),
        sum(len(one.lives) - 1 for one in copying.copiers),
        sum(one.stuck for one in copying.copiers), sum(count[kind] for kind in LOST), count["duplicate"],
        sum(count[kind] for kind in REORDERED), sum(n for kind, n in count.items() if kind not in known),
        times[0], times[1].longest(begun),
        [*said, *(f"not written: {reason}" for reason in failures[:5])], problem,
    )  # fmt: skip


def _copied(copying: Copying, found: dict[str, list[int]]) -> tuple[int, list[str]]:
    """How many records the copy has, and how it differs from what the last reader of the original found."""
    try:
        copy = {
            partition: [value_of(value) for value in values] for partition, values in copying.read().items()
        }
    except Exception as error:
        return 0, [f"the copy could not be read: {error}"]
    original = {int(name.rpartition("-")[2]): values for name, values in found.items()}
    return sum(map(len, copy.values())), differences(original, copy)


def document(report: Report) -> dict[str, Any]:
    """The report as --json prints it."""
    return {"version": 1, "kind": "chaos", "ok": report.ok, **report._asdict()}
