"""Seeds of a cluster with transactions: who takes part, what is drawn for it, and how the end is judged.

`run_transactional_seed(17)` runs the cluster, the faults and the operator of seed 17 with these clients instead of
the usual ones: random numbers of their own leave the usual seeds what they are.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.model import NO_EPOCH, Epoch, TopicPartition
from barnabas.sim.cluster.checker import check
from barnabas.sim.cluster.clients.clients import VIOLATES
from barnabas.sim.cluster.clients.consumer import Consumer
from barnabas.sim.cluster.clients.contact import Contact, Timing
from barnabas.sim.cluster.clients.producer import Values
from barnabas.sim.cluster.clients.transactions.disturbing import Disturber, Late, Marker
from barnabas.sim.cluster.clients.transactions.isolation import check_isolation, check_position, check_told
from barnabas.sim.cluster.clients.transactions.positions import PositionReader, PositionWatcher
from barnabas.sim.cluster.clients.transactions.producer import TransactionalProducer
from barnabas.sim.cluster.clients.transactions.reader import (
    CommittedConsumer,
    LastCommittedReader,
    StableOffsets,
)
from barnabas.sim.cluster.clients.transactions.record import Attempt, Written
from barnabas.sim.cluster.clients.transactions.striking import Striker
from barnabas.sim.cluster.history import FINAL, History
from barnabas.sim.cluster.seed_run import ClusterReport, run_seed
from barnabas.sim.cluster.setup import Setup
from barnabas.sim.kernel.report import InvariantViolation

if TYPE_CHECKING:
    from barnabas.sim.cluster.world import World
    from barnabas.wire.schemas.produce import ProduceRequest

__all__ = ["TransactionalWorkload", "run_transactional_seed"]

_ANOMALIES = {**VIOLATES, "aborted read": "T3", "precommitted read": "T2", "torn transaction": "T3"}


def run_transactional_seed(seed: int, *, story: bool = False) -> ClusterReport:
    """Run one seed with transactional clients."""
    clients, setup = TransactionalWorkload, _setup(seed)
    return run_seed(seed, story=story, clients=clients, setup=setup, workload="transactions")


def _setup(seed: int) -> Setup:
    rng = random.Random(f"transactions setup {seed}")
    drawn = Setup.of(random.Random(f"cluster setup {seed}"))
    settings = {
        "transaction.state.log.num.partitions": rng.choice((1, 2)),
        "transaction.state.log.replication.factor": 3,
        "transaction.state.log.min.isr": 2,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": rng.choice((500, 2_000)),
        "request.timeout.ms": rng.choice((1_500, 5_000, 30_000)),
    }
    return replace(drawn, settings=(*drawn.settings, *((k, str(v)) for k, v in settings.items())))


class TransactionalWorkload:
    """All clients of a world.  The topics are there when they begin."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"transactions {world.seed}")
        self.history = History()
        self.partitions = [TopicPartition(name, index) for name, index in world.partitions()]
        self.producers: list[TransactionalProducer] = []
        self.consumers: list[Consumer] = []
        self.disturbers: list[Disturber] = []
        self.last_readers: list[LastCommittedReader] = []
        self.positions: list[PositionReader] = []
        self.watchers: list[PositionWatcher] = []
        self.stable = StableOffsets()
        self.striker = Striker(world, self.rng, self.rng.choice((0.0, 0.1, 0.3)))
        self._earlier: dict[tuple[int, TopicPartition], list[Marker]] = {}
        """Markers of transaction.version 1, by producer id and partition."""
        self._finishing = False

    def __repr__(self) -> str:
        return f"<TransactionalWorkload {self.waiting()} {self.counts}>"

    def _contact(self, name: str) -> Contact:
        topics = sorted({where.topic for where in self.partitions})
        return Contact(self.world.client(name), topics, Timing.of(self.rng))

    def begin(self) -> None:
        """Start everybody.  Some transactional ids have two instances, which fence each other."""
        rng, values, numbers = self.rng, Values(), Values()
        for number in range(1, rng.choice((3, 4))):
            version = rng.choice((1, 2, 2))
            timeout_ms = rng.choice((2_000, 5_000, 15_000))
            for instance in range(rng.choice((1, 2, 2))):
                contact = self._contact(f"producer{number}{'ab'[instance]}")
                producer = TransactionalProducer(
                    contact,
                    self.history,
                    values,
                    numbers,
                    self.partitions,
                    transactional_id=f"id{number}",
                    version=version,
                    interval=rng.choice((0.1, 0.3)),
                    timeout_ms=timeout_ms,
                    hooks=self,
                )
                self.producers.append(producer)
                contact.machine.spawn(producer.work(), contact.name)
        for number in range(1, 3):
            contact = self._contact(f"consumer{number}")
            interval = rng.choice((0.05, 0.2))
            consumer = CommittedConsumer(contact, self.history, self.partitions, interval, stable=self.stable)
            self.consumers.append(consumer)
            contact.machine.spawn(consumer.work(), contact.name)
        contact = self._contact("dirty reader")
        dirty = Consumer(contact, self.history, self.partitions, 0.2)
        self.consumers.append(dirty)
        contact.machine.spawn(dirty.work(), contact.name)
        for group in sorted({producer.group for producer in self.producers}):
            watcher = PositionWatcher(self._contact(f"watcher of {group}"), group, self.partitions[0])
            self.watchers.append(watcher)
            watcher.contact.machine.spawn(watcher.work(), watcher.contact.name)
        contact = self._contact("disturber")
        disturber = Disturber(contact, self.partitions, rng.random() < 0.6, rng.random() < 0.6)
        self.disturbers.append(disturber)
        contact.machine.spawn(disturber.work(), contact.name)

    # ---- what producers tell ------------------------------------------------------------------------------

    def asked(self, attempt: Attempt) -> None:
        """A producer asks for the end of a transaction."""
        attempt.coordinator_epoch = self._least_coordinator_epoch()
        self.striker.asked(attempt)

    def ended(self, producer: TransactionalProducer, attempt: Attempt, epoch: int) -> None:
        """Its markers may come once more."""
        if attempt.commits is None or attempt.coordinator_epoch == NO_EPOCH:
            return
        for where in sorted({written.where for written in attempt.records}):
            marker = Marker(
                where,
                attempt.producer_id,
                epoch,
                attempt.coordinator_epoch,
                attempt.commits,
                producer.version,
            )
            if producer.version == 2:
                self._may_repeat(marker)
                continue
            earlier = self._earlier.setdefault((attempt.producer_id, where), [])
            if len(earlier) > 1:  # of these the last but one is written, now that a later end was decided
                since = earlier[-1].coordinator_epoch
                old = [one for one in earlier[:-1] if one.coordinator_epoch < since]
                for one in old:
                    earlier.remove(one)
                    if one.producer_epoch == epoch:  # any other is refused for its epoch
                        self._may_repeat(one)
            earlier.append(marker)

    def _may_repeat(self, marker: Marker) -> None:
        for disturber in self.disturbers:
            disturber.heard(marker)

    def held_back(self, where: TopicPartition, request: ProduceRequest, how: dict[str, int]) -> None:
        """A batch comes late, or never."""
        for disturber in self.disturbers:
            disturber.held_back(Late(where, request, how))

    def _least_coordinator_epoch(self) -> Epoch:
        """The least epoch of any coordinator that runs: none that decides from now on has an older one."""
        epochs = []
        for node in self.world.nodes.values():
            part = None if node.apart or node.process is None else node.process.part
            if part is not None:
                epochs += [owned.epoch for owned in part.transactions.log.all_owned()]
        return min(epochs, default=NO_EPOCH)

    def finish(self) -> None:
        """The end begins; `done` says when it is over."""
        self._finishing = True
        for producer in self.producers:
            producer.finish()
        for disturber in self.disturbers:
            disturber.finish()

    @property
    def done(self) -> bool:
        """Whether every transaction has its fate, and everything was read."""
        active = [producer.done for producer in self.producers]
        active += [disturber.done for disturber in self.disturbers]
        if not self._finishing or not all(active) or not self._quiet():
            return False
        if not self.last_readers:
            for consumer in self.consumers:
                consumer.finish()
            for watcher in self.watchers:
                watcher.finish()
            if not all(consumer.done for consumer in self.consumers):
                return False  # what they still read must be there when the last readers ask for the end
            for where in self.partitions:
                contact = self._contact(f"last reader of {where.topic}-{where.partition}")
                reader = LastCommittedReader(contact, self.history, where, stable=self.stable)
                self.last_readers.append(reader)
                contact.machine.spawn(reader.work(), contact.name)
            for group in sorted({producer.group for producer in self.producers}):
                position = PositionReader(self._contact(f"position of {group}"), group, self.partitions[0])
                self.positions.append(position)
                position.contact.machine.spawn(position.work(), position.contact.name)
        return all(reader.done for reader in self.last_readers) and all(one.done for one in self.positions)

    def _quiet(self) -> bool:
        """Whether no partition has a transaction open: those of the dead are aborted when their time is over."""
        for name, index in self.world.partitions():
            leader = self.world.leader_of(name, index)
            broker = None if leader is None else leader.broker
            partition = None if broker is None else broker.partition(name, index)
            if (
                partition is None
                or not partition.is_leader
                or partition.log.producers.first_unstable_offset >= 0
            ):
                return False
        return True

    def waiting(self) -> str:
        """What keeps `done` from being so."""
        busy = [repr(one) for one in self.producers if not one.done]
        busy += [repr(one) for one in self.disturbers if not one.done]
        busy += [one.contact.name for one in self.consumers if one.finishing and not one.done]
        busy += [one.contact.name for one in self.last_readers if not one.done]
        busy += [repr(one) for one in self.positions if not one.done]
        return "; ".join(busy if self._quiet() else [*busy, "a transaction is open"])

    def check(self) -> None:
        """Judge the history.  Raises InvariantViolation."""
        polls = self.history.polls
        times: Counter[int] = Counter()
        for poll in range(len(polls)):
            if polls.flags[poll] & FINAL:
                rows = polls.rows(poll)
                times.update(polls.value[rows.start : rows.stop])
        attempts = [attempt for producer in self.producers for attempt in producer.attempts]
        check_isolation(attempts, times, self.stable, self._deleted)
        for watcher in self.watchers:
            of_group = [a for p in self.producers if p.group == watcher.group for a in p.attempts]
            check_told(watcher.group, of_group, watcher.told)
        for reader in self.positions:
            of_group = [a for p in self.producers if p.group == reader.group for a in p.attempts]
            check_position(
                reader.group, of_group, lambda value: times[value] > 0, reader.position, self._deleted
            )
        verdict = check(self.history)
        if not verdict.ok:
            first = verdict.anomalies[0]
            counts = ", ".join(f"{count} x {kind}" for kind, count in verdict.counts.items())
            raise InvariantViolation(_ANOMALIES[first.kind], f"{counts}.  {first}")

    def _deleted(self, written: Written) -> bool:
        """Whether somebody had it deleted, or may have."""
        place = f"{written.where.topic}-{written.where.partition}"
        before = self.history.deletions.get(self.history.partition(place), 0)
        return before > 0 and written.offset < before

    @property
    def counts(self) -> dict[str, int]:
        """What was done, for reports."""
        attempts = [attempt for producer in self.producers for attempt in producer.attempts]
        return {
            "transactions": len(attempts),
            "committed": sum(attempt.settled is True for attempt in attempts),
            "aborted": sum(attempt.settled is False for attempt in attempts),
            "positions": sum(attempt.position > 0 for attempt in attempts),
            "fenced": sum(producer.fenced for producer in self.producers),
            "acknowledged": sum(len(attempt.records) for attempt in attempts),
            "moves": sum(disturber.moved for disturber in self.disturbers),
            "repeated markers": sum(disturber.repeated for disturber in self.disturbers),
            "superseded markers": sum(len(disturber.superseded) for disturber in self.disturbers),
            "late batches": sum(disturber.delivered for disturber in self.disturbers),
            "strikes": self.striker.struck,
            "positions told": sum(len(watcher.told) for watcher in self.watchers),
            "read": sum(consumer.records for consumer in self.consumers),
            "read at the end": sum(reader.records for reader in self.last_readers),
        }
