"""One seed from beginning to end: the safety phase, in which anything breaks, then the liveness phase, in
which a majority is healed, the rest stays broken, and progress is demanded.
"""

from __future__ import annotations

import random
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from math import inf

from barnabas.raft.messages import UpgradeRequest
from barnabas.raft.reassign import TARGET
from barnabas.raft.roles import Leader
from barnabas.sim.budget import found, sets_in_force
from barnabas.sim.faults import FAULTS, Fault
from barnabas.sim.invariants import Broken
from barnabas.sim.nemesis import NEMESES
from barnabas.sim.node import Node
from barnabas.sim.operations import OPERATIONS, Scene
from barnabas.sim.workload import Operator, Writers
from barnabas.sim.world import Line, StepLimit, World
from barnabas.sim.wrong_format import WrongFormat

__all__ = ["Life", "Occurrence", "Report", "run_seed"]

WANTED_CHANGES, WANTED_OVERLAPS, WANTED_COMMITS = 3, 3, 200


@dataclass(slots=True)
class Occurrence:
    """A fault as it happened; `overlaps`: a change of the voters was pending."""

    time: float
    name: str
    text: str
    lasts: float
    overlaps: bool = False

    def __str__(self) -> str:
        mark = " (during a change)" if self.overlaps else ""
        return f"{self.time:8.3f}  {self.name}: {self.text}, {self.lasts:.2f} s{mark}"


@dataclass(slots=True)
class Report:
    """What became of a seed.  `promise` names what was broken; "" when all was kept."""

    seed: int
    promise: str = ""
    error: str = ""
    digest: str = ""
    setup: str = ""
    events: int = 0
    virtual_seconds: float = 0.0
    idle_seconds: float = 0.0
    cpu_seconds: float = 0.0
    commits: int = 0
    changes: int = 0
    overlaps: int = 0
    faults: list[Occurrence] = field(default_factory=list)
    operations: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    story: list[Line] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.promise

    @property
    def reached(self) -> bool:
        """Whether the seed did what a seed is for."""
        return (
            self.changes >= WANTED_CHANGES
            and self.overlaps >= WANTED_OVERLAPS
            and self.commits >= WANTED_COMMITS
        )


KINDS: tuple[type[Fault], ...] = (*FAULTS, *NEMESES, WrongFormat)


class Life:
    """See the module.  `run()` raises Broken, StepLimit, or whatever the code under test lets fall."""

    def __init__(self, seed: int, *, story: bool = False) -> None:
        self.world = World(seed, story=story)
        self.chance = random.Random(f"life {seed}")
        self.occurrences: list[Occurrence] = []
        self.active: list[tuple[Fault, Occurrence]] = []
        self.enabled = [fault for fault in KINDS if self.chance.random() < 0.6]
        self.pace = self.chance.choice((0.4, 0.8, 1.6))
        """Mean seconds from fault to fault."""
        self.sizes = self.chance.choice(((1, 3, 5, 3), (3, 1, 3), (3, 5, 3), (2, 4), (3,)))
        racing = 2 if self.chance.random() < 0.5 else 1
        self.operators = [Operator(self.world, n + 1, self.chance) for n in range(racing)]
        self.writers = Writers(self.world, interval=0.15, chance=self.chance)
        self.fair = False
        """No fault begins for a while: what else could not be done gets done."""
        self.stay_down: set[int] = set()
        self.world.on_down = self._down
        self.world.change_pending = self.change_pending

    def __repr__(self) -> str:
        return f"<Life {self.world!r} faults={len(self.occurrences)}>"

    def run(self) -> None:
        world = self.world
        for node in list(world.nodes.values()):
            node.start()
        world.run(3.0)
        for operator in self.operators:
            world.at(self.chance.uniform(0.1, 1.0), lambda one=operator: self._operate(one))  # type: ignore[misc]
        world.at(0.5, self._break)
        world.run(30.0)
        for number in range(75):
            if self.reached:
                break
            if number == 15:
                self.pace *= 4  # so hard a life gets nothing done
            self._weather(fair=number >= 20 and number % 8 < 5)
            world.run(4.0)
        Liveness(self).run()

    @property
    def reached(self) -> bool:
        """Whether enough has happened for the safety phase to end."""
        truth = self.world.truth
        overlaps = sum(one.overlaps for one in self.occurrences)
        return (
            truth.changes >= WANTED_CHANGES and overlaps >= WANTED_OVERLAPS and truth.writes >= WANTED_COMMITS
        )

    # Membership.

    def change_pending(self) -> bool:
        """Whether anybody's change of the voters is under way, as far as the whole world knows."""
        if any(operator.pending for operator in self.operators):
            return True
        for node in self.world.nodes.values():
            if node.apart:
                continue
            if node.last is not None and node.last.journal.note(TARGET) is not None:
                return True
            if node.process is not None and node.process.node.is_leader:
                if node.process.node.describe(node.clock.now()).waiting:
                    return True
        return False

    def _operate(self, operator: Operator) -> None:
        if self.world.calm:
            return
        if self.world.time < self.world.hold_until:
            self.world.when(self.world.hold_until, lambda: self._operate(operator))
            return
        size = self.sizes[int(self.world.time / 8) % len(self.sizes)]
        scene = Scene(self.world, operator, self.chance, size)
        kinds = list(OPERATIONS)
        for _ in range(4):
            kind = self.chance.choices(kinds, [one.weight for one in kinds])[0]
            known = operator.done[kind.name]
            if kind.begin(scene):
                if operator.done[kind.name] == known:
                    operator.done[kind.name] += 1
                break
        for _, occurrence in self.active:
            occurrence.overlaps = True
        if self.chance.random() < 0.3:
            self.world.at(self.chance.random() * 0.1, self._strike)
        self.world.at(self.chance.expovariate(1 / 0.8), lambda: self._operate(operator))

    # Faults.

    def _break(self) -> None:
        if not self.world.calm:
            self._strike()
            self.world.at(self.chance.expovariate(1 / self.pace), self._break)

    def _strike(self) -> None:
        """One fault of those enabled."""
        if self.world.calm or self.fair or not self.enabled or len(self.active) >= 4:
            return
        kind = self.chance.choices(self.enabled, [one.rate for one in self.enabled])[0]
        fault = kind(self.world, self.chance)
        pending = self.change_pending()
        text = fault.begin()
        if text is None:
            return
        occurrence = Occurrence(self.world.time, kind.name, text, fault.lasts, pending)
        self.occurrences.append(occurrence)
        self.world.tell(0, f"{kind.name}: {text}, {fault.lasts:.2f} s")
        if fault.lasts > 0:
            entry = (fault, occurrence)
            self.active.append(entry)
            self.world.at(fault.lasts, lambda: self._mend(entry))

    def _weather(self, *, fair: bool) -> None:
        if fair and not self.fair:
            for entry in list(self.active):
                self._mend(entry)
        self.fair = fair

    def _mend(self, entry: tuple[Fault, Occurrence]) -> None:
        if entry in self.active:
            self.active.remove(entry)
            entry[0].end()
            self.world.tell(0, f"{entry[1].name} ends")

    def heal(self) -> None:
        """Every fault ends now, and no other begins."""
        self.world.calm = True
        for entry in list(self.active):
            self._mend(entry)
        self.world.network.heal()
        for node in self.world.nodes.values():
            node.disk.heal()

    # Lives.

    def _down(self, node: Node, why: str) -> None:
        """A node is down: somebody starts it again after a while."""
        life = node.life
        delay = self.chance.choice((0.1, 0.5, 1.0, 2.0, 6.0)) * self.chance.uniform(0.5, 1.5)

        def start() -> None:
            if node.process is None and node.life == life and node.id not in self.stay_down:
                if node.restart_at < inf and node.restart_at > self.world.time:
                    self.world.when(node.restart_at, start)
                    return
                self._start(node)

        self.world.at(delay, start)

    def _start(self, node: Node) -> None:
        started = node.start()
        if node.rotten:
            if started and node.process is not None:
                node.off("all", "its disk is exchanged, though it was read without an error")
            node.new_disk()
            self.world.format(node, first=False)


class Liveness:
    """The second phase: L1, L2, L4, L5."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.world = life.world
        self.core: list[Node] = []

    def run(self) -> None:
        life, world = self.life, self.world
        life.heal()
        quiet = world.run(12.0, lambda: not life.change_pending())
        self._choose(quiet)
        world.run(1.0)
        if not self._electable():
            self._everybody()
        self._upgrade_wish()
        patience = 12 * (world.setup.election_timeout + world.setup.fetch_timeout)
        if not world.run(patience, self._leads):
            self._fail("L1", "no leader")
        target = world.truth.writes + 3
        if not world.run(patience, lambda: world.truth.writes >= target):
            self._fail("L1", "nothing is committed")
        life.writers.stopped = True
        if not world.run(patience, self._all_caught_up):
            self._fail("L1", "a node of the core does not catch up")
        if not world.run(patience, self._nothing_waits):
            self._fail("L2", f"a change neither happens nor ends: {self._waiting()}")
        self._stable()
        world.promises.finished()

    def _choose(self, quiet: bool) -> None:
        """Who is healed: enough for every voter set in force; the others stay as broken as they can be.

        While a change is under way that is everybody: a leader may be about to take a step towards a set
        that needs whom we would break now, and cannot know it yet.
        """
        world, life = self.world, self.life
        nodes = [node for node in world.nodes.values() if not node.apart]
        life.chance.shuffle(nodes)
        core = list(nodes)
        for node in nodes:
            rest = [other for other in core if other is not node]
            if (
                quiet
                and life.chance.random() < 0.6
                and all(found(world, voters, rest) >= voters.majority for voters in sets_in_force(world))
            ):
                core.remove(node)
        self.core = sorted(core, key=lambda node: node.id)
        for node in nodes:
            if node not in core:
                self._break(node)
        for node in self.core:
            if node.paused:
                node.resume()
            node.latency = (0.0002, 0.002)
            if node.process is None:
                world.at(life.chance.uniform(0.0, 1.0), lambda node=node: self._start(node))  # type: ignore[misc]
        world.tell(0, f"the core {[node.id for node in self.core]} is healed")

    def _electable(self) -> bool:
        """Whether the core could agree on somebody, as its logs are.

        A node can need the vote of another one that it alone knows as a voter, and that has, as an observer,
        newer entries of a leader that is gone: then they must wait for that leader (see docs/simulation.md).
        """
        ends: dict[int, tuple[int, int]] = {}
        for node in self.core:
            if node.process is not None:
                journal = node.process.journal
                ends[node.id] = journal.last_epoch, journal.end_offset
        for node in self.core:
            if node.process is None or node.process.node.is_leader:
                return True  # it leads, or nobody knows yet
            voters, mine = node.process.node.voters, ends[node.id]
            votes = sum(ends.get(i, (mine[0] + 1, 0)) <= mine for i in voters.ids)
            if node.process.node.core.may_stand and votes >= voters.majority:
                return True
        return False

    def _everybody(self) -> None:
        """Who was to stay broken is healed after all."""
        world = self.world
        world.tell(0, "the core cannot elect anybody: everybody is healed")
        world.network.heal()
        self.life.stay_down.clear()
        for node in world.nodes.values():
            if node not in self.core:
                self._start(node)
        self.core = [node for node in world.nodes.values() if not node.apart]

    def _start(self, node: Node) -> None:
        if node.process is None:
            node.restart_at = inf
            self.life._start(node)

    def _break(self, node: Node) -> None:
        how = self.life.chance.choice(("off", "cut off", "deaf", "mute"))
        others = [other for other in self.world.nodes if other != node.id]
        network = self.world.network
        if how == "off":
            self.life.stay_down.add(node.id)
            if node.process is not None:
                node.off("some", "for good")
        if how in ("cut off", "mute"):
            network.cut([(node.id, other) for other in others])
        if how in ("cut off", "deaf"):
            network.cut([(other, node.id) for other in others])
        self.world.tell(node.id, f"stays broken: {how}")

    def _upgrade_wish(self) -> None:
        leader = self.world.leader
        if leader is not None and leader.process is not None and leader.process.node.kraft_version == 0:
            self.life.operators[0].ask("upgrade", UpgradeRequest(1))

    # What is demanded.

    def _leader(self) -> Node | None:
        leaders = [
            node
            for node in self.core
            if node.process is not None and node.process.node.is_leader and node.process.active_epoch >= 0
        ]
        return max(leaders, key=lambda n: n.process.node.epoch if n.process else 0, default=None)

    def _leads(self) -> bool:
        return self._leader() is not None

    def _all_caught_up(self) -> bool:
        leader = self._leader()
        if leader is None or leader.process is None:
            return False
        end = leader.process.journal.end_offset
        if (leader.process.node.high_watermark or 0) < end:
            return False
        return all(n.process is not None and (n.process.node.high_watermark or 0) >= end for n in self.core)

    def _waiting(self) -> list[str]:
        leader = self._leader()
        if leader is None or leader.process is None:
            return ["no leader"]
        role = leader.process.node.role
        assert isinstance(role, Leader)
        # A step towards a target set may wait for ever, for a node that is gone: the operator sees it.
        return [intent.describe() for intent in role.intents if not intent.planned]

    def _nothing_waits(self) -> bool:
        return not self._waiting() and not any(operator.pending for operator in self.life.operators)

    def _stable(self) -> None:
        """L5: whoever is broken does not depose the leader.  L4: an idle quorum is quiet."""
        world = self.world
        leader = self._leader()
        if leader is None or leader.process is None:
            self._fail("L5", "the leader is gone")
            return
        target = leader.process.node.describe(leader.clock.now()).target
        epoch, sent, since = leader.process.node.epoch, world.network.sent, world.time
        cut = self._deaf_to(leader) if target is None else []
        world.network.cut(cut)
        world.run(5.0)
        world.network.mend(cut)
        if target is None:
            now = self._leader()
            if now is not leader or leader.process is None or leader.process.node.epoch != epoch:
                self._fail(
                    "L5", f"node {leader.id} led epoch {epoch}, undisturbed by the core, and does no more"
                )
            rate = (world.network.sent - sent) / (world.time - since) / len(world.nodes)
            if rate > 60:
                self._fail("L4", f"{rate:.0f} messages per node and second, though nothing happens")

    def _deaf_to(self, leader: Node) -> list[tuple[int, int]]:
        """A voter that does not hear the leader, though everybody else: it must not make the others leave it."""
        world = self.world
        assert leader.process is not None
        for node in self.core:
            rest = [other for other in self.core if other is not node]
            voters = leader.process.node.voters
            if node is not leader and voters.has(node.key) and found(world, voters, rest) >= voters.majority:
                world.tell(node.id, f"does not hear the leader {leader.id} any more")
                return [(leader.id, node.id), (node.id, leader.id)]
        return []

    def _fail(self, promise: str, text: str) -> None:
        nodes = ", ".join(
            f"{node.id} at {node.address[1]}: {node.process.node if node.process else 'down'}"
            for node in self.core
        )
        raise Broken(promise, f"{text}; the core is {nodes}")


def run_seed(seed: int, *, story: bool = False) -> Report:
    """Live a seed; never raises what the seed brings to light, but says so in the report."""
    report = Report(seed)
    began = time.process_time()
    life = Life(seed, story=story)
    world = life.world
    try:
        life.run()
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
    report.idle_seconds = world.idle
    report.cpu_seconds = time.process_time() - began
    report.commits = world.truth.writes
    report.changes = world.truth.changes
    report.faults = life.occurrences
    report.overlaps = sum(one.overlaps for one in life.occurrences)
    for operator in life.operators:
        report.operations.update(operator.done)
        report.outcomes.update(operator.outcomes)
    report.story = world.story or []
    return report
