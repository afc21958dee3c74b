"""One seed of a whole cluster, from start to end.

The cluster forms without faults, topics are created, clients start.  Then comes the **safety phase**, in
which anything may fail, then the **liveness phase**: all faults end (one node may stay away if the others can
do without it), and everything that is guaranteed for such times must hold.
"""

from __future__ import annotations

import gc
import logging
import random
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from barnabas.model import NO_NODE
from barnabas.sim.cluster.admin import Admin
from barnabas.sim.cluster.budget import whole_again
from barnabas.sim.cluster.faults import FAULTS, ClusterFault
from barnabas.sim.cluster.invariants import LOOK_EVERY, Invariants
from barnabas.sim.cluster.loop import RoundInCircles
from barnabas.sim.cluster.world import World
from barnabas.sim.cluster.wrong_format import WrongFormat
from barnabas.sim.kernel.report import InvariantViolation, Occurrence, Report, StoryLine

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.sim.cluster.node import SimNode
    from barnabas.sim.cluster.setup import Setup

__all__ = ["Clients", "ClusterReport", "SeedRun", "run_seed"]

FORMED_WITHIN = 30.0
HEALED_WITHIN = 90.0
HEALED_WORK = 200_000
"""Events: a healthy cluster needs a tenth of them, one that spins takes minutes of CPU for the 90 s."""
WITHOUT_ONE_WITHIN = 60.0


class Clients(Protocol):
    """Clients that produce and consume while the seed runs (`clients.Workload`)."""

    @property
    def counts(self) -> dict[str, int]: ...

    def begin(self) -> None: ...
    def finish(self) -> None: ...
    @property
    def done(self) -> bool: ...
    def check(self) -> None: ...


@dataclass(slots=True)
class ClusterReport(Report):
    """The result of a cluster's seed; `counts` of records.  `workload` names its clients (`workloads`)."""

    workload: str = ""
    counts: dict[str, int] = field(default_factory=dict)


class SeedRun:
    """See the module.  `run()` raises InvariantViolation, or whatever the code under test lets fall."""

    def __init__(
        self,
        seed: int,
        *,
        story: bool = False,
        clients: Callable[[World], Clients] | None = None,
        setup: Setup | None = None,
    ) -> None:
        self.world = World(seed, story=story, setup=setup)
        self.invariants = Invariants(self.world)
        self.world.on_end = self._ended
        self.world.on_over = self.invariants.run_over
        self.world.on_recovered = self.invariants.recovered
        self.world.on_emptied = self.invariants.emptied
        self.rng = random.Random(f"cluster life {seed}")
        self.occurrences: list[Occurrence] = []
        self.active: list[tuple[ClusterFault, Occurrence]] = []
        self.enabled = [fault for fault in FAULTS if self.rng.random() < 0.5]
        if random.Random(f"wrong format {seed}").random() < 0.5:
            self.enabled.append(WrongFormat)
        self.pace = self.rng.choice((0.7, 1.5, 3.0))
        """Mean seconds from fault to fault."""
        self.lasts = self.rng.uniform(12.0, 30.0)
        self.admin = Admin(self.world, self.rng)
        self.clients = (clients or _workload)(self.world)
        if (history := getattr(self.clients, "history", None)) is not None:
            self.admin.on_delete = history.deleted
        self.away: SimNode | None = None
        """Who goes at the very end, and does not come back."""

    def __repr__(self) -> str:
        return f"<SeedRun {self.world!r} faults={len(self.occurrences)}>"

    def run(self) -> None:
        world = self.world
        world.start()
        if not world.run(FORMED_WITHIN, lambda: all(node.serves for node in world.nodes.values())):
            world.alarm("L1", f"the cluster did not form in {FORMED_WITHIN} s of peace")
        world.every(LOOK_EVERY, self.invariants.look)
        world.every(0.25, lambda: whole_again(world))
        made = self.admin.spawn(self.admin.create_topics(), "create topics")
        if not world.run(FORMED_WITHIN, made.done):
            world.alarm("L2", "the topics were not created")
        self.clients.begin()
        world.run(1.0)
        world.at(0.0, self._break)
        world.at(self.rng.uniform(1.0, 4.0), self._operate)
        world.run(self.lasts)
        self.heal()
        self.clients.finish()
        tired = world.scheduler.events + HEALED_WORK
        world.run(HEALED_WITHIN, lambda: self.wanting() is None or world.scheduler.events > tired)
        if (wanting := self.wanting()) is not None:
            much = f"{HEALED_WORK} events" if world.scheduler.events > tired else f"{HEALED_WITHIN} s"
            world.alarm("L3", f"{much} after everything was mended, {wanting}")
        self.invariants.final()
        if self.rng.random() < 0.3:
            self._do_without_one()
        self.clients.check()

    def _do_without_one(self) -> None:
        """A node goes for good: the others take over what it led, and nothing waits for it."""
        world = self.world
        active = world.active_controller
        voters = active.quorum.voters if active is not None and active.quorum is not None else ()
        spare = [n for n in world.nodes.values() if not n.is_controller or len(voters) == 3]
        if not spare:
            return
        away = self.away = self.rng.choice(spare)
        if self.rng.random() < 0.5:
            away.kill("kill -9, for good")
        else:
            away.power_cut("some", "power cut, for good")
        if not world.run(WITHOUT_ONE_WITHIN, lambda: self.wanting() is None):
            world.alarm("L3", f"{WITHOUT_ONE_WITHIN} s after node {away.id} was lost, {self.wanting()}")
        self.invariants.look()

    # Faults and operators.

    def _break(self) -> None:
        """A fault happens, and the next one is planned."""
        world = self.world
        if world.calm:
            return
        kinds = [kind for kind in self.enabled if not any(isinstance(one, kind) for one, _ in self.active)]
        if kinds:
            kind = self.rng.choices(kinds, [kind.rate for kind in kinds])[0]
            fault = kind(world, self.rng)
            text = fault.begin()
            if text is not None:
                occurrence = Occurrence(world.time, fault.name, text, fault.lasts)
                self.occurrences.append(occurrence)
                self.active.append((fault, occurrence))
                world.tell("world", f"{fault.name}: {text}")
                world.at(fault.lasts, lambda: self._end(fault, occurrence))
        world.at(self.rng.expovariate(1 / self.pace), self._break)

    def _end(self, fault: ClusterFault, occurrence: Occurrence) -> None:
        if (fault, occurrence) in self.active:
            self.active.remove((fault, occurrence))
            self.world.tell("world", f"{fault.name} ends")
            fault.end()

    def _operate(self) -> None:
        if not self.world.calm:
            self.admin.spawn(self.admin.something(), "operate")
            self.world.at(self.rng.uniform(1.0, 8.0), self._operate)

    def _ended(self, node: SimNode, why: str) -> None:
        """A process ended by itself: that needs a reason, and somebody who starts it again."""
        world = self.world
        refuses = node.apart and "has a quorum already" in why
        if not (
            node.damaged
            or node.rotten
            or refuses
            or why.startswith("stopped")
            or "did not register this broker" in why
        ):
            world.alarm("S1", f"node {node.id} ended without a reason: {why}")
        if not node.stopping or why.startswith("failed"):
            world.start_in(self.rng.uniform(0.2, 3.0), node)

    # Healing.

    def heal(self) -> None:
        """The safety phase is over."""
        world = self.world
        world.calm = True
        for fault, occurrence in list(self.active):
            self._end(fault, occurrence)
        world.tell("world", "everything is mended")
        world.network.mend_all()
        for node in world.nodes.values():
            node.resume()
            node.disk.heal()
            node.disk.stalled_until = 0.0
            if not node.up:
                world.start_in(self.rng.uniform(0.1, 2.0), node)
            elif node.stopping:
                world.restart_when_down(node, 0.1)
            elif node.ails or node.damaged:
                node.stop()
                world.restart_when_down(node, 0.1)

    def wanting(self) -> str | None:
        """What is still missing of what a healthy cluster is; None when nothing is."""
        world = self.world
        nodes = [node for node in world.nodes.values() if node is not self.away]
        gone = set() if self.away is None else {self.away.id}
        for node in nodes:
            if not node.serves:
                return f"node {node.id} does not serve"
        active = world.active_controller
        if active is None or active.quorum is None:
            return "there is no active controller"
        image = active.quorum.image
        for node in nodes:
            if node.is_broker and image.brokers[node.id].fenced:
                return f"broker {node.id} is fenced"
            if node.quorum is not None and node.quorum.image.offset < image.offset - 2:
                return (
                    f"node {node.id} has read the metadata up to {node.quorum.image.offset} of {image.offset}"
                )
        for topic in image.topics.values():
            for index, state in topic.partitions.items():
                if state.leader == NO_NODE:
                    return f"{topic.name}-{index} has no leader: {state}"
                if state.adding or state.removing:
                    return f"{topic.name}-{index} is still moving: {state}"
                if set(state.isr) != set(state.replicas) - gone:
                    return f"{topic.name}-{index} is under-replicated: {state.isr} of {state.replicas}"
        for name, index in world.partitions():
            leader = world.leader_of(name, index)
            partition = (
                None if leader is None or leader.broker is None else leader.broker.partition(name, index)
            )
            if partition is None or partition.high_watermark < partition.log.log_end_offset:
                return f"{name}-{index} is not committed to its end: {partition!r}"
        if not self.clients.done:
            return f"clients are not done: {self.clients!r}"
        return None


def _workload(world: World) -> Clients:
    from barnabas.sim.cluster.clients.clients import Workload

    return Workload(world)


class _Said(logging.Handler):
    """What nodes say about themselves goes into the story, under the name of whoever runs just now."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.INFO)
        self.world = world

    def emit(self, record: logging.LogRecord) -> None:
        world = self.world
        loop = world.scheduler.current
        fields = getattr(record, "fields", {})
        text = f"{getattr(record, 'event', record.name)}" + "".join(f" {k}={v}" for k, v in fields.items())
        if record.exc_info:
            text += "\n" + "".join(traceback.format_exception(*record.exc_info))
        if world.story is not None:
            world.story.append(StoryLine(world.time, loop.host.name if loop is not None else "world", text))


def run_seed(
    seed: int,
    *,
    story: bool = False,
    clients: Callable[[World], Clients] | None = None,
    setup: Setup | None = None,
    workload: str = "",
    run: type[SeedRun] = SeedRun,
) -> ClusterReport:
    """Run one seed.  `clients` and `setup` take the place of those that the seed draws; `workload` names them."""
    report = ClusterReport(seed, workload=workload)
    began = time.process_time()
    collecting = gc.isenabled()
    gc.disable()
    one: SeedRun | None = None
    logger = logging.getLogger("barnabas")
    before = logger.level, logger.propagate, logger.handlers
    logger.propagate, logger.handlers = False, []
    logger.setLevel(logging.INFO if story else logging.CRITICAL + 1)
    try:
        one = run(seed, story=story, clients=clients, setup=setup)
        logger.handlers = [_Said(one.world)]
        report.setup = str(one.world.setup)
        one.run()
    except InvariantViolation as violation:
        report.invariant, report.error = violation.invariant, str(violation)
    except RoundInCircles as circles:
        report.invariant, report.error = "L4", f"L4: {circles}"
    except Exception as error:
        report.invariant = "S1"
        report.error = f"S1: {error!r}\n{''.join(traceback.format_exception(error))}"
    finally:
        if one is not None:
            world = one.world
            report.digest = world.digest
            report.events = world.scheduler.events
            report.virtual_seconds = world.time
            report.counts = dict(one.clients.counts)
            report.faults = one.occurrences
            report.operations = one.admin.done
            report.story = world.story or []
            world.close()
            del one, world
        logger.propagate, logger.handlers = before[1], before[2]
        logger.setLevel(before[0])
        gc.collect(0)  # (the whole world is one circle, and young: it was made while nothing was collected)
        if collecting:
            gc.enable()
    report.cpu_seconds = time.process_time() - began
    return report
