"""The third mode: all voters come back at new addresses, and know the name of one node.

A seed is a quorum of three, four or five voters (by the seed's number) with an observer, whose settings name one
node; the name follows that node, all else that anybody wrote down is wrong after a move.  Up to three times
everybody moves: all at once, or all but the one that is known; the network loses and delays for some seconds; the
known one comes last at times, is lost again in the middle, or is the observer, which cannot vote.  After each move
there must be a leader that commits, every node must catch up, and the voter set must name where they are.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from barnabas.sim.kernel.pool import run_in_pool
from barnabas.sim.kernel.report import InvariantViolation, Occurrence, Report, ending, recorded, timeline
from barnabas.sim.quorum.invariants.catalogue import watch
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.setup import Setup
from barnabas.sim.quorum.workload import Writers
from barnabas.sim.quorum.world import World

__all__ = ["AllMovedReport", "AllMovedRun", "AllMovedSummary", "command", "run_seed", "run_seeds", "tell"]

SIZES = (3, 4, 5)


@dataclass(slots=True)
class AllMovedReport(Report):
    """The result of a seed; `seconds` from each move to a leader that has committed."""

    voters: int = 0
    commits: int = 0
    seconds: list[float] = field(default_factory=list)


class AllMovedRun:
    """One seed."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.rng = random.Random(f"moved {seed}")
        self.voters = SIZES[seed % len(SIZES)]
        drawn = Setup.of(random.Random(f"setup {seed}"))
        first = tuple(range(1, self.voters + 1))
        nodes = (*first, self.voters + 1)
        known = (self.rng.choice(nodes),)
        version = 0 if self.rng.random() < 0.1 else 1
        setup = replace(drawn, nodes=nodes, first=first, known=known, kraft_version=version, auto_join=False)
        self.world = World(seed, story=story, setup=setup)
        watch(self.world)
        self.writers = Writers(self.world, interval=0.15, rng=self.rng)
        self.occurrences: list[Occurrence] = []
        self.seconds: list[float] = []
        self.world.on_down = self._down

    def __repr__(self) -> str:
        return f"<AllMovedRun {self.world!r}>"

    def run(self) -> None:
        """Raises InvariantViolation, or what the code under test lets fall."""
        world = self.world
        for node in world.nodes.values():
            node.start()
        self._demand("nothing is committed, though nothing was broken", self._writes(10))
        for _ in range(self.rng.randint(1, 3)):
            world.run(self.rng.uniform(0.0, 12.0))
            self._move()
            began = world.time
            self._demand("nothing is committed after the move", self._writes(3))
            self.seconds.append(world.time - began)
            world.network.heal()
            self._demand("a node does not catch up after the move", self._all_there)

    def _demand(self, what: str, condition: object) -> None:
        assert callable(condition)
        setup = self.world.setup
        patience = 20 * (setup.election_timeout + setup.fetch_timeout)
        if not self.world.run(patience, condition):
            nodes = ", ".join(
                f"{n.id}: {n.process.node if n.process else 'down'}" for n in self.world.nodes.values()
            )
            raise InvariantViolation("L1", f"{what}; {nodes}")

    def _writes(self, count: int) -> object:
        target = self.world.committed_log.writes + count
        return lambda: self.world.committed_log.writes >= target

    # The move.

    def _move(self) -> None:
        world, rng = self.world, self.rng
        known = world.nodes[world.setup.known[0]]
        stays, last = rng.random() < 0.3, rng.random() < 0.3
        network = world.network
        network.loss = rng.choice((0.0, 0.0, 0.05, 0.2))
        network.base_delay = rng.choice((0.0005, 0.0005, 0.05))
        world.at(rng.uniform(3.0, 9.0), network.heal)
        nodes = [node for node in world.nodes.values() if node is not known or not stays]
        for node in nodes:
            if node.process is not None:
                node.off(world.loss(), "it moves")
        for node in nodes:
            world.move(node)
            delay = rng.uniform(0.1, 4.0) + (5.0 if last and node is known else 0.0)
            node.restart_at = world.time + delay
            world.at(delay, lambda node=node: self._start(node))  # type: ignore[misc]
        if rng.random() < 0.3:
            world.at(rng.uniform(4.0, 8.0), lambda: self._lose(known))
        what = f"node {known.id} is known" + (" and stays" if stays else " and comes last" if last else "")
        self.occurrences.append(Occurrence(world.time, "all moved", what, 0.0))
        world.tell(0, f"all move: {what}")

    def _lose(self, node: Machine) -> None:
        """The known one is lost once more; it comes back where it was."""
        if node.process is not None:
            node.off(self.world.loss(), "power cut")
            node.restart_at = self.world.time + 1.0

    def _down(self, node: Machine, why: str) -> None:
        self.world.at(1.0, lambda: self._start(node))

    def _start(self, node: Machine) -> None:
        if node.process is None and node.restart_at <= self.world.time + 1e-9:
            node.start()
        elif node.process is None:
            self.world.at(0.5, lambda: self._start(node))

    def _all_there(self) -> bool:
        """Whether everybody has what the leader has, and the voters stand in the set where they are."""
        leader = self.world.leader
        if leader is None or leader.process is None:
            return False
        target, core = leader.process.log_view.end_offset, leader.process.node
        for node in self.world.nodes.values():
            if node.process is None or (node.process.node.high_watermark or 0) < target - 20:
                return False
            voter = core.voters.get(node.id)
            if voter is not None and core.kraft_version > 0 and voter.endpoints != node.endpoints:
                return False
        return True


def run_seed(seed: int, *, story: bool = False) -> AllMovedReport:
    """Run a seed; never raises what it brings to light."""
    report = AllMovedReport(seed)
    run = AllMovedRun(seed, story=story)
    with recorded(report):
        run.run()
    world = run.world
    report.digest, report.setup = world.digest, str(world.setup)
    report.events, report.virtual_seconds = world.events, world.time
    report.voters, report.commits = run.voters, world.committed_log.writes
    report.faults, report.seconds = run.occurrences, run.seconds
    report.story = world.story or []
    return report


def run_seeds(seeds: Iterable[int], *, jobs: int = 2) -> Iterator[AllMovedReport]:
    """Run these seeds, in `jobs` processes; the reports come as they get ready."""
    return run_in_pool(run_seed, seeds, jobs=jobs, seeds_each=200)


@dataclass(slots=True)
class AllMovedSummary:
    """Many seeds: how many, and how long it took until something was committed again."""

    seeds: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)
    seconds: dict[int, list[float]] = field(default_factory=dict)

    def add(self, report: AllMovedReport) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.virtual_seconds += report.virtual_seconds
        self.cpu_seconds += report.cpu_seconds
        self.seconds.setdefault(report.voters, []).extend(report.seconds)
        if not report.ok:
            self.failed[report.seed] = report.error

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.seeds} seeds in which all moved, {len(self.failed)} failed"
        for voters, seconds in sorted(self.seconds.items()):
            ordered = sorted(seconds) or [0.0]
            yield (
                f"  {voters} voters: {len(seconds)} moves, virtual seconds to a commit: "
                f"median {ordered[len(ordered) // 2]:.1f}, longest {ordered[-1]:.1f}"
            )

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "version": 1,
            "seeds": self.seeds,
            "failed": self.failed,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
            "moves": {str(voters): len(seconds) for voters, seconds in sorted(self.seconds.items())},
        }


def command(seed: int) -> str:
    """What repeats a seed."""
    return f"barnabas simulate --moved --seed {seed}"


def tell(report: AllMovedReport, *, lines: int = 60) -> Iterator[str]:
    """The lines of a seed's story; `lines` of its timeline (0: all)."""
    yield from timeline(report, report.commits, {}, lines)
    times = ", ".join(f"{seconds:.1f} s" for seconds in report.seconds)
    yield from ending(report, f"found each other after {times}", command(report.seed))
