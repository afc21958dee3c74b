"""The clients of a seed: producers and consumers of several kinds, and what their history must not show.

`begin` starts them.  `finish` stops the producers from sending new records; once the fate of everything sent
is known, and the consumers have read what they asked for, the last readers read every partition as a whole.
`check` runs the checker.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from barnabas.model import NodeId, TopicPartition
from barnabas.sim.cluster.checker import Verdict, check
from barnabas.sim.cluster.clients.committer import Committer
from barnabas.sim.cluster.clients.consumer import Consumer, LastReader
from barnabas.sim.cluster.clients.contact import Contact, Timing
from barnabas.sim.cluster.clients.producer import Manner, Producer, Values
from barnabas.sim.cluster.history import History
from barnabas.sim.kernel.report import InvariantViolation

if TYPE_CHECKING:
    from barnabas.sim.cluster.world import World

__all__ = ["VIOLATES", "Workload"]

VIOLATES = {
    "lost write": "P1",
    "unseen": "P1",
    "vanished": "P1",
    "duplicate": "P1",
    "inconsistent offset": "P1",
    "aborted read": "P1",
    "phantom": "P3",
    "beyond the high watermark": "P3",
    "nonmonotonic poll": "P5",
    "int-nonmonotonic poll": "P5",
    "poll skip": "P5",
    "int-poll skip": "P5",
    "nonmonotonic send": "P5",
    "overtaken": "P5",
    "end went back": "P3",
}
"""Which invariant an anomaly breaks."""

_MANNERS = (
    Manner(idempotent=True, in_flight=5),
    Manner(idempotent=True, in_flight=5),
    Manner(idempotent=True, in_flight=1),
    Manner(idempotent=False, in_flight=1),
    Manner(idempotent=False, in_flight=3, repeats=False),
    Manner(idempotent=False, acks=1, in_flight=3),
)


class Workload:
    """All clients of a world.  The topics are there when they begin."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"workload {world.seed}")
        self.history = History()
        self.values = Values()
        self.partitions = [
            TopicPartition(topic.name, index)
            for topic in world.setup.topics
            for index in range(topic.partitions)
        ]
        self.producers: list[Producer] = []
        self.consumers: list[Consumer] = []
        self.committers: list[Committer] = []
        self.last_readers: list[LastReader] = []
        self.verdict: Verdict | None = None
        self._finishing = False

    def __repr__(self) -> str:
        return f"<Workload {self.history!r}>"

    def begin(self) -> None:
        """Start everybody."""
        rng = self.rng
        manners = [_MANNERS[0], rng.choice(_MANNERS[1:3])]
        manners += rng.sample(_MANNERS[3:], rng.choice((0, 1, 1, 2)))
        for number, manner in enumerate(manners, 1):
            contact = self._contact(f"producer{number}")
            interval = rng.choice((0.1, 0.2, 0.5))
            producer = Producer(contact, self.history, self.values, self._some(), manner, interval)
            producer.on_acknowledged = self._acknowledged
            self.producers.append(producer)
            contact.machine.spawn(producer.work(), contact.name)
        for number in range(1, 3):
            contact = self._contact(f"consumer{number}")
            consumer = Consumer(contact, self.history, self._some(), rng.choice((0.05, 0.2)))
            self.consumers.append(consumer)
            contact.machine.spawn(consumer.work(), contact.name)

        if rng.random() < 0.5:
            contact = self._contact("committer")
            committer = Committer(contact, rng.choice(self.partitions), rng.choice((0.1, 0.4)))
            self.committers.append(committer)
            contact.machine.spawn(committer.work(), contact.name)

    def _contact(self, name: str) -> Contact:
        topics = sorted({where.topic for where in self.partitions})
        return Contact(self.world.client(name), topics, Timing.of(self.rng))

    def _some(self) -> list[TopicPartition]:
        """One or more of the partitions."""
        return sorted(self.rng.sample(self.partitions, self.rng.randint(1, len(self.partitions))))

    def _acknowledged(self, where: TopicPartition, end: int, leader: NodeId, run_number: int) -> None:
        """What is acknowledged by acks=all is committed, and who said so knows it as long as it lives, and
        has no disk that lied: then it may have begun anew before the answer is here."""
        node = self.world.nodes[leader]
        broker = node.broker
        partition = broker.partition(*where) if broker is not None else None
        same = node.run_number == run_number and not node.rotten
        if partition is not None and same and partition.high_watermark < end:
            raise InvariantViolation(
                "P1",
                f"{where.topic}-{where.partition}: node {leader} acknowledged what ends at {end}, "
                f"its high watermark is {partition.high_watermark}",
            )

    def finish(self) -> None:
        """The end begins; `done` says when it is over."""
        self._finishing = True
        for producer in self.producers:
            producer.finish()

    @property
    def done(self) -> bool:
        """Whether everything that was sent has its fate, and everything was read."""
        if not self._finishing or not all(producer.done for producer in self.producers):
            return False
        if not self.last_readers:
            for consumer in self.consumers:
                consumer.finish()
            for committer in self.committers:
                committer.finish()
            if not all(consumer.done for consumer in self.consumers):
                return False  # what they still read must be there when the last readers ask for the end
            for where in self.partitions:
                contact = self._contact(f"last reader of {where.topic}-{where.partition}")
                reader = LastReader(contact, self.history, where)
                self.last_readers.append(reader)
                contact.machine.spawn(reader.work(), contact.name)
        read = all(reader.done for reader in self.last_readers)
        return read and all(committer.done for committer in self.committers)

    def waiting(self) -> str:
        """What keeps `done` from being so, for whoever gave up waiting for it."""
        busy = [one.contact.name for one in self.consumers if one.finishing and not one.done]
        busy += [repr(lane) for p in self.producers if not p.done for lane in p.lanes if lane.queue]
        reading = [
            f"{reader.contact.name} at {reader.readings[0].position}"
            for reader in self.last_readers
            if not reader.done
        ]
        committing = [repr(one) for one in self.committers if not one.done]
        return "; ".join([*busy, *reading, *committing])

    def check(self) -> None:
        """Judge the history.  Raises InvariantViolation."""
        verdict = self.verdict = check(self.history)
        if not verdict.ok:
            first = verdict.anomalies[0]
            counts = ", ".join(f"{count} x {kind}" for kind, count in verdict.counts.items())
            raise InvariantViolation(VIOLATES[first.kind], f"{counts}.  {first}")

    @property
    def counts(self) -> dict[str, int]:
        """What was done, for reports."""
        return {
            "acknowledged": sum(producer.acknowledged for producer in self.producers),
            "given up": sum(producer.given_up for producer in self.producers),
            "failed": sum(producer.failed for producer in self.producers),
            "commits": sum(committer.commits for committer in self.committers),
            "read": sum(consumer.records for consumer in self.consumers),
            "read at the end": sum(reader.records for reader in self.last_readers),
        }
