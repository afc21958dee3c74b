"""One seed of a quorum whose disks rot: three or five voters with an observer, killed, cut off, and damaged.

Every few seconds a node is killed, one of its files is damaged, and it starts again.  The next voter is damaged
only when that one has again what the leader has, so a majority always has all of it.  Meanwhile nodes lose their
power and links break.  At the end all faults end: a leader must commit, and every node must have what it has.
The damage draws from a random stream of its own.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from barnabas.sim.kernel.pool import run_in_pool
from barnabas.sim.kernel.report import InvariantViolation, Occurrence, Report, ending, recorded, timeline
from barnabas.sim.quorum import faults
from barnabas.sim.quorum.invariants.catalogue import Invariants, Onlookers
from barnabas.sim.quorum.invariants.elections import OneLeaderPerEpoch
from barnabas.sim.quorum.invariants.replication import LeaderHasAll, LogsAgree
from barnabas.sim.quorum.lying.directed import DIRECTED, ForgottenVote
from barnabas.sim.quorum.lying.disk_rot import Copies, files_of, rot
from barnabas.sim.quorum.lying.invariants import NothingLostIsVotedAway
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.setup import Setup
from barnabas.sim.quorum.targeted_faults import TargetedFault, TornWrites
from barnabas.sim.quorum.workload import Writers
from barnabas.sim.quorum.world import World

__all__ = ["LyingSummary", "RotReport", "RotRun", "command", "run_seed", "run_seeds", "tell"]

SECONDS = 60.0
KINDS = (
    faults.Loss,
    faults.Reordering,
    faults.Partition,
    faults.Isolation,
    faults.OneWay,
    faults.Reset,
    faults.PowerCut,
    faults.Pause,
    faults.SlowDisk,
)


@dataclass(slots=True)
class RotReport(Report):
    """The result of a seed."""

    commits: int = 0
    damaged: int = 0


class RotRun:
    """One seed."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.rng = random.Random(f"rotting {seed}")
        self.luck = random.Random(f"rot {seed}")
        self.fate = random.Random(f"directed {seed}")
        share = self.fate.random()
        self.directed = DIRECTED if share < 0.4 else () if share < 0.5 else (ForgottenVote,)
        """The faults that wait for their moment; a tenth of the seeds has none."""
        voters = self.rng.choice((3, 3, 5))
        drawn = Setup.of(random.Random(f"setup {seed}"))
        first = tuple(range(1, voters + 1))
        version = 0 if self.rng.random() < 0.1 else 1
        setup = replace(
            drawn, nodes=(*first, voters + 1), first=first, known=(), kraft_version=version, auto_join=False
        )
        self.world = world = World(seed, story=story, setup=setup, rotting=True)
        kinds = (OneLeaderPerEpoch, LogsAgree, LeaderHasAll, NothingLostIsVotedAway, Onlookers)
        world.invariants = Invariants(world, kinds)
        self.writers = Writers(world, interval=0.15, rng=self.rng)
        self.occurrences: list[Occurrence] = []
        self.damaged = 0
        self.copies: dict[int, list[Copies]] = {}
        """Older contents of each node's files."""
        self.active: list[faults.QuorumFault] = []
        world.on_down = self._down

    def __repr__(self) -> str:
        return f"<RotRun {self.world!r}>"

    def run(self) -> None:
        """Raises InvariantViolation, or what the code under test lets fall."""
        world = self.world
        for node in world.nodes.values():
            node.start()
        world.run(3.0)
        world.at(0.5, self._strike)
        world.at(1.0, self._copy)
        world.at(2.0, self._rot)
        if self.directed:
            world.at(2.5, self._direct)
        world.run(SECONDS)
        self._heal()
        patience = 20 * (world.setup.election_timeout + world.setup.fetch_timeout)
        target = world.committed_log.writes + 3
        self._demand(patience, "nothing is committed", lambda: world.committed_log.writes >= target)
        self.writers.stopped = True
        self._demand(patience, "a node does not catch up", self._all_there)
        world.invariants.finished()

    def _demand(self, patience: float, what: str, condition: object) -> None:
        assert callable(condition)
        if not self.world.run(patience, condition):
            nodes = ", ".join(f"{n.id}: {n.process.node if n.process else 'down'}" for n in self._nodes())
            raise InvariantViolation("L1", f"{what}; {nodes}")

    def _nodes(self) -> list[Machine]:
        return list(self.world.nodes.values())

    # The usual faults.

    def _strike(self) -> None:
        if self.world.calm:
            return
        self.world.at(self.rng.expovariate(1 / 1.5), self._strike)
        if len(self.active) >= 3:
            return
        fault = self.rng.choice(KINDS)(self.world, self.rng)
        if (text := fault.begin()) is None:
            return
        self._note(fault.name, text, fault.lasts)
        self.active.append(fault)
        self.world.at(fault.lasts, lambda: self._mend(fault))

    def _mend(self, fault: faults.QuorumFault) -> None:
        if fault in self.active:
            self.active.remove(fault)
            fault.end()

    def _note(self, name: str, text: str, lasts: float) -> None:
        self.occurrences.append(Occurrence(self.world.time, name, text, lasts))
        self.world.tell(0, f"{name}: {text}")

    def _heal(self) -> None:
        self.world.calm = True
        for fault in list(self.active):
            self._mend(fault)
        self.world.network.heal()
        for node in self._nodes():
            if node.paused:
                node.resume()

    # The damage.

    def _copy(self) -> None:
        """Keep what a node's files hold now, to bring it back later."""
        if not self.world.calm:
            self.world.at(self.luck.uniform(0.2, 2.0), self._copy)
            node = self.luck.choice(self._nodes())
            self.copies.setdefault(node.id, []).append(files_of(node.disk))

    def _rot(self) -> None:
        if self.world.calm:
            return
        self.world.at(self.luck.uniform(0.3, 3.0), self._rot)
        if not self._may_damage():
            return
        leader = self.world.leader
        node = leader if leader is not None and self.luck.random() < 0.4 else self.luck.choice(self._nodes())
        if node.process is None or node.paused:
            return
        node.off("kill", "killed, and its disk rots", reset=self.luck.random() < 0.5)
        what = rot(node.disk, self.luck.choice(self.copies.get(node.id) or [{}]), self.luck)
        node.restart_at = self.world.time + self.luck.choice((0.01, 0.5, 2.0))
        if what:
            self._damaged(node, f"loses {what}")

    def _may_damage(self) -> bool:
        """Tell if every node has what it must, so that one may be damaged."""
        for node in self._nodes():
            node.rotten = node.rotten and not self._is_whole(node)
        return not any(node.rotten for node in self._nodes())

    def _damaged(self, node: Machine, what: str) -> None:
        node.rotten = True
        self.damaged += 1
        self._note("disk rot", f"node {node.id} {what}", 0.0)

    def _direct(self) -> None:
        """Begin a fault that waits for its moment."""
        if self.world.calm:
            return
        self.world.at(self.fate.uniform(2.0, 8.0), self._direct)
        fault: TargetedFault = TornWrites(self.world, self.fate)
        if len(self.directed) == 1 or self.fate.random() < 0.75:
            kind = self.fate.choice(self.directed)
            fault = kind(self.world, self.fate, self._may_damage, self._finds)
        if (text := fault.begin()) is not None:
            self._note(fault.name, text, fault.lasts)
            self.active.append(fault)
            self.world.at(fault.lasts, lambda: self._mend(fault))

    def _finds(self, node: Machine, path: str, content: bytes, what: str) -> None:
        """Kill a node, and have it find this content in a file."""
        node.off("kill", "killed, and its disk rots")
        node.disk.put(path, content)
        node.restart_at = self.world.time + 0.01
        self._damaged(node, f"finds {what}")

    def _is_whole(self, node: Machine) -> bool:
        """Whether it has again all that was committed, and follows or leads."""
        process = node.process
        if process is None or process.node.core.log_view.lacks:
            return False
        return (
            process.log_view.persisted >= self.world.committed_log.end and process.node.leader_id is not None
        )

    # Restarts.

    def _down(self, node: Machine, why: str) -> None:
        if why == "refused":
            raise InvariantViolation(
                "Q10", f"node {node.id} does not start, though the others have all it lost"
            )
        self.world.at(self.rng.uniform(0.01, 2.0), lambda: self._start(node))

    def _start(self, node: Machine) -> None:
        if node.process is None and (self.world.calm or node.restart_at <= self.world.time + 1e-9):
            node.start()
        elif node.process is None:
            self.world.at(0.2, lambda: self._start(node))

    def _all_there(self) -> bool:
        leader = self.world.leader
        if leader is None or leader.process is None:
            return False
        target = leader.process.node.high_watermark or 0
        if target < leader.process.log_view.end_offset:
            return False
        return all(
            n.process is not None
            and (n.process.node.high_watermark or 0) >= target
            and not n.process.log_view.lacks
            for n in self._nodes()
        )


def run_seed(seed: int, *, story: bool = False) -> RotReport:
    """Run a seed; never raises what it brings to light."""
    report = RotReport(seed)
    run = RotRun(seed, story=story)
    with recorded(report):
        run.run()
    world = run.world
    report.digest, report.setup = world.digest, str(world.setup)
    report.events, report.virtual_seconds = world.events, world.time
    report.commits, report.damaged = world.committed_log.writes, run.damaged
    report.faults = run.occurrences
    report.story = world.story or []
    return report


def run_seeds(seeds: Iterable[int], *, jobs: int = 2) -> Iterator[RotReport]:
    """Run these seeds, in `jobs` processes; the reports come as they get ready."""
    return run_in_pool(run_seed, seeds, jobs=jobs, seeds_each=200)


@dataclass(slots=True)
class LyingSummary:
    """Many seeds."""

    seeds: int = 0
    damaged: int = 0
    commits: int = 0
    virtual_seconds: float = 0.0
    cpu_seconds: float = 0.0
    failed: dict[int, str] = field(default_factory=dict)

    def add(self, report: RotReport) -> None:
        """Count one seed in."""
        self.seeds += 1
        self.damaged += report.damaged
        self.commits += report.commits
        self.virtual_seconds += report.virtual_seconds
        self.cpu_seconds += report.cpu_seconds
        if not report.ok:
            self.failed[report.seed] = report.error

    def lines(self) -> Iterator[str]:
        """For people."""
        yield (
            f"{self.seeds} seeds with {self.damaged} damaged files, {len(self.failed)} failed; "
            f"{self.commits} commits in {self.virtual_seconds:.0f} virtual seconds"
        )

    def document(self) -> dict[str, object]:
        """For programs."""
        return {
            "version": 1,
            "seeds": self.seeds,
            "failed": self.failed,
            "damaged": self.damaged,
            "commits": self.commits,
            "virtual_seconds": round(self.virtual_seconds, 1),
            "cpu_seconds": round(self.cpu_seconds, 1),
        }


def command(seed: int) -> str:
    """What repeats a seed."""
    return f"barnabas simulate --lies --seed {seed}"


def tell(report: RotReport, *, lines: int = 60) -> Iterator[str]:
    """The lines of a seed's story; `lines` of its timeline (0: all)."""
    yield from timeline(report, report.commits, {}, lines)
    yield from ending(report, f"{report.damaged} damaged files cost nothing", command(report.seed))
