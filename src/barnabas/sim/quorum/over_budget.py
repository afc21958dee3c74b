"""The second mode: one fault more than a quorum can survive, and "refused or documented" as the invariant.

A seed is a quorum of five voters that works, has a few small faults, and then gets one fault beyond the budget
(`beyond_faults`).  For each such fault it is known whether a node can detect it:

* It can: then every invariant of the main mode still holds, the damaged node refuses with a reason and stays away,
  and the others continue.
* It cannot (a disk that was restored to an earlier state, a sync that lied, rot in the newest records): then an
  invariant may be violated.  The simulator counts and documents which one.

In both cases no node ends without a reason.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from barnabas.model import NodeId
from barnabas.raft.entries import Batch
from barnabas.raft.messages import FetchSnapshotResponse, Response
from barnabas.raft.value import altered
from barnabas.sim.kernel.disk import Loss
from barnabas.sim.quorum.invariants.catalogue import OneLeaderPerEpoch, OneVotePerEpoch, Promises
from barnabas.sim.quorum.invariants.committed_log import Truth
from barnabas.sim.quorum.invariants.invariant import Broken, Invariant
from barnabas.sim.quorum.node import Node, Process
from barnabas.sim.quorum.seed_run import Occurrence
from barnabas.sim.quorum.setup import Setup
from barnabas.sim.quorum.workload import Writers
from barnabas.sim.quorum.world import Line, StepLimit, World

if TYPE_CHECKING:
    from barnabas.sim.quorum.over_budget_faults import BeyondFault

__all__ = [
    "BeyondReport",
    "BeyondSummary",
    "BeyondWorld",
    "Struck",
    "command",
    "run_seed",
    "run_seeds",
    "tell",
]

VOTERS = 5


class BeyondWorld(World):
    """Five voters and an observer; from the strike on, refusals are written down instead of being alarms."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        drawn = Setup.of(random.Random(f"setup {seed}"))
        ids = tuple(range(1, VOTERS + 1))
        setup = replace(drawn, nodes=(*ids, VOTERS + 1), first=ids, kraft_version=1, auto_join=False)
        super().__init__(seed, story=story, setup=setup)
        self.struck: BeyondFault | None = None
        self.refusals: dict[NodeId, str] = {}
        """Why a node does not take part any more, in its own words."""
        self.stay_down: set[NodeId] = set()
        self.lost: set[NodeId] = set()
        """Nodes that may refuse."""
        self.on_down = self._down
        self.spoil = 0
        """So many pieces of snapshots arrive with a flipped bit."""

    def tell(self, node: NodeId, text: str) -> None:
        super().tell(node, text)
        for word in ("does not start: ", "goes down (disk: "):
            if self.struck is not None and text.startswith(word):
                self.refusals[node] = text.removeprefix(word)

    def alarm(self, promise: str, text: str) -> None:
        if self.struck is None or self.struck.detected:
            super().alarm(promise, text)

    def _down(self, node: Node, why: str) -> None:
        """Somebody starts it again, three times; one that refuses then stays away."""
        life = node.life
        refused = self.struck is not None and node.id in self.refusals and why != "stopped"
        if node.id in self.stay_down or (refused and node.id in self.lost and node.life > 40):
            return

        def start() -> None:
            if node.process is None and node.life == life and node.id not in self.stay_down:
                node.start()

        self.at(self.chance.uniform(0.2, 2.0) * (5.0 if refused else 1.0), start)

    def power_cut(self, node: Node, loss: Loss | None = None) -> None:
        """A node is off for a while."""
        if node.process is not None:
            node.off(loss or self.loss(), "power cut", reset=True)

    def respond(self, process: Process, token: object, response: Response, data: bytes) -> None:
        if self.spoil > 0 and isinstance(response, FetchSnapshotResponse) and response.length > 0:
            self.spoil -= 1
            assert isinstance(response.data, bytes)
            spoiled = bytearray(response.data)
            spoiled[self.chance.randrange(len(spoiled))] ^= 1 << self.chance.randrange(8)
            response = altered(response, data=bytes(spoiled))
        super().respond(process, token, response, data)

    @property
    def healthy(self) -> list[Node]:
        return [node for node in self.nodes.values() if node.process is not None]


class WithinIncarnation(Invariant):
    """Q4 after a recovery by force: what is committed is the same everywhere in one incarnation, and an old
    node neither leads an epoch of the new one nor takes its leader's place."""

    name = "Q4"

    def __init__(self, world: World, first_epoch: int, truths: dict[int, Truth]) -> None:
        super().__init__(world)
        self.first_epoch = first_epoch
        self.truths = truths

    def committed(self, node: Node, batch: Batch) -> None:
        assert node.process is not None
        core = node.process.node.core
        wrong = self.truths[min(core.known_generation, 1)].commit(batch, core.epoch)
        if wrong:
            self.fail(f"node {node.id} of incarnation {core.generation.number}: {wrong}")

    def led(self, node: Node) -> None:
        assert node.process is not None
        core = node.process.node.core
        if core.generation.number == 0 and core.epoch >= self.first_epoch:
            self.fail(f"{node.key} of the old incarnation leads epoch {core.epoch} of the new one")


class IncarnationPromises(Promises):
    """What is promised once the quorum was put together by force."""

    def __init__(self, world: World, first_epoch: int, truths: dict[int, Truth]) -> None:
        Invariant.__init__(self, world)
        from barnabas.sim.quorum.invariants.invariant import listen

        self.all = [
            OneLeaderPerEpoch(world),
            OneVotePerEpoch(world),
            WithinIncarnation(world, first_epoch, truths),
        ]
        listen(self, self.all)


@dataclass(slots=True)
class BeyondReport:
    """What became of a seed; `outcome` in words.  `promise` names what must not have been broken."""

    seed: int
    promise: str = ""
    error: str = ""
    digest: str = ""
    setup: str = ""
    fault: str = ""
    outcome: str = ""
    events: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    commits: int = 0
    faults: list[Occurrence] = field(default_factory=list)
    refusals: dict[NodeId, str] = field(default_factory=dict)
    story: list[Line] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.promise


class Struck:
    """One seed: a quorum that works, a fault beyond the budget, and what comes of it."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        from barnabas.sim.quorum.over_budget_faults import BEYOND

        self.world = BeyondWorld(seed, story=story)
        self.chance = random.Random(f"beyond {seed}")
        self.writers = Writers(self.world, interval=0.15, chance=self.chance)
        self.fault: BeyondFault = BEYOND[seed % len(BEYOND)](self.world, self.chance)
        self.occurrences: list[Occurrence] = []

    def __repr__(self) -> str:
        return f"<Struck {self.fault!r} {self.world!r}>"

    def run(self) -> str:
        """The outcome.  Raises Broken, or what the code under test lets fall."""
        world = self.world
        for node in world.nodes.values():
            if node.id != self.fault.late:
                node.start()
        if not world.run(30.0, lambda: world.truth.writes > 10):
            raise Broken("L1", "nothing is committed, though nothing was broken")
        self._disturb()
        if not world.run(30.0, self._calm):
            raise Broken("L1", "the quorum does not come to rest before the strike")
        self.fault.prepare()
        world.struck = self.fault
        if not self.fault.detected:
            world.promises.forget("Q2", "Q3", "S1", "S2")  # they are about what the disk says
        try:
            text = self.fault.strike()
            self.occurrences.append(Occurrence(world.time, self.fault.name, text, 0.0))
            world.tell(0, f"{self.fault.name}: {text}")
            self._aftermath()
        except Broken as broken:
            if self.fault.detected:
                raise
            return f"lost, {broken.promise}" + (", and somebody refused" if world.refusals else "")
        return "refused" if world.refusals else "no harm"

    def _disturb(self) -> None:
        """A few power cuts, never of a majority at once, and enough time for recovery points."""
        world = self.world
        for _ in range(self.chance.randint(0, 3)):
            node = self.chance.choice(world.healthy)
            world.power_cut(node)
            world.run(self.chance.uniform(1.0, 5.0))
        world.run(self.chance.uniform(8.0, 16.0))

    def _calm(self) -> bool:
        leader = self.world.leader
        return leader is not None and len(self.world.healthy) >= VOTERS

    def _aftermath(self) -> None:
        world, fault = self.world, self.fault
        world.run(self.chance.uniform(2.0, 8.0))
        fault.go_on()
        world.run(15.0)
        if not fault.detected:
            return
        wrong = fault.check()
        if wrong:
            raise Broken("S2", wrong)
        before = fault.writes()
        if not world.run(40.0, lambda: fault.writes() >= before + 5):
            raise Broken("L1", f"nothing is committed any more; refused: {world.refusals}")
        strangers = {node: why for node, why in world.refusals.items() if node not in world.lost}
        if strangers:
            raise Broken("S1", f"nodes refuse that nothing happened to: {strangers}")


def run_seed(seed: int, *, story: bool = False) -> BeyondReport:
    """Live a seed; never raises what it brings to light."""
    report = BeyondReport(seed)
    began = time.process_time()
    struck = Struck(seed, story=story)
    world = struck.world
    report.fault = struck.fault.name
    try:
        report.outcome = struck.run()
    except Broken as broken:
        report.promise, report.error = broken.promise, str(broken)
    except StepLimit as limit:
        report.promise, report.error = "limit", str(limit)
    except Exception as error:
        report.promise = "crash"
        report.error = f"{error!r}\n{''.join(traceback.format_exception(error)[-6:])}"
    report.digest = world.digest
    report.setup = str(world.setup)
    report.events = world.events
    report.virtual_seconds = world.time
    report.cpu_seconds = time.process_time() - began
    report.commits = world.truth.writes
    report.faults = struck.occurrences
    report.refusals = dict(world.refusals)
    report.story = world.story or []
    return report


def run_seeds(seeds: Iterable[int], *, jobs: int = 2) -> Iterator[BeyondReport]:
    """Live these seeds, in `jobs` processes; the reports come as they get ready."""
    if jobs <= 1:
        yield from map(run_seed, seeds)
        return
    import multiprocessing

    with multiprocessing.get_context("fork").Pool(jobs, maxtasksperchild=200) as pool:
        yield from pool.imap_unordered(run_seed, seeds, chunksize=2)


@dataclass(slots=True)
class BeyondSummary:
    """Many seeds: what came of which fault, how often."""

    seeds: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)

    def add(self, report: BeyondReport) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.virtual_seconds += report.virtual_seconds
        self.cpu_seconds += report.cpu_seconds
        if report.ok:
            self.outcomes[report.fault, report.outcome] += 1
        else:
            self.failed[report.seed] = report.error

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.seeds} seeds beyond the budget, {len(self.failed)} failed"
        for (fault, outcome), count in sorted(self.outcomes.items()):
            yield f"  {count:5d}  {fault}: {outcome}"

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "version": 1,
            "seeds": self.seeds,
            "failed": self.failed,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "outcomes": {f"{fault}: {outcome}": n for (fault, outcome), n in sorted(self.outcomes.items())},
        }


def command(seed: int) -> str:
    """What repeats a seed."""
    return f"barnabas simulate --beyond --seed {seed}"


def tell(report: BeyondReport, *, lines: int = 60) -> Iterator[str]:
    """The lines of a seed's story; `lines` of its timeline (0: all)."""
    yield f"seed {report.seed}: {report.setup}"
    yield f"{report.events} events in {report.virtual_seconds:.0f} virtual seconds, {report.commits} commits"
    for fault in report.faults:
        yield f"  {fault.time:8.3f}  {fault.name}: {fault.text}"
    for node, why in sorted(report.refusals.items()):
        yield f"node {node} refuses: {why}"
    for line in report.story if lines == 0 else report.story[-lines:]:
        who = "      " if line.node == 0 else f"  n{line.node}  "
        yield f"{line.time:10.4f}{who}{line.text}"
    if report.ok:
        yield f"{report.fault}: {report.outcome}; trace {report.digest}"
    else:
        yield f"BROKEN {report.error}"
        yield f"trace {report.digest}"
        yield f"again: {command(report.seed)}"
