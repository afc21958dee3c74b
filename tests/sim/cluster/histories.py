"""Right histories: what clients see of logs that keep every invariant, with all that may happen to them.

Writes fail, stay unknown (and land or not), are in flight together; offsets are skipped by markers; records
are compacted away and deleted; consumers seek; transactions commit and abort.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from barnabas.sim.cluster.history import History, Outcome

LANDS = {"ok": True, "unknown, lands": True, "unknown, is lost": False, "fails": False}


@dataclass
class Log:
    """One partition."""

    name: str
    offsets: list[int] = field(default_factory=list)
    values: list[int] = field(default_factory=list)
    transactions: list[int] = field(default_factory=list)
    end: int = 0
    start: int = 0

    def append(self, value: int, transaction: int = -1) -> int:
        self.offsets.append(self.end)
        self.values.append(value)
        self.transactions.append(transaction)
        self.end += 1
        return self.end - 1


@dataclass
class Producer:
    process: int
    repeats: bool
    transactional: bool
    pending: dict[int, deque[tuple[int, int, str]]] = field(default_factory=dict)
    landed: list[tuple[int, int]] = field(default_factory=list)
    transaction: int = -1


@dataclass
class Consumer:
    process: int
    positions: dict[int, int] = field(default_factory=dict)
    sees_end: dict[int, int] = field(default_factory=dict)


class Right:
    """Grows a right history step by step."""

    def __init__(self, rng: random.Random, *, rich: bool = True, partitions: int = 3, most: int = 6) -> None:
        self.rng = rng
        self.rich = rich
        self.most = most
        self.time = 0.0
        self.next_value = 1
        self.history = History()
        self.logs = [Log(f"topic-{n}") for n in range(partitions)]
        self.transactional = rich and rng.random() < 0.3
        self.compacted = rich and not self.transactional and rng.random() < 0.3
        if self.compacted:
            self.history.compacts(self.logs[0].name)
        self.keys: dict[int, int] = {}
        self.ending: dict[int, bool | None] = {}
        self.producers = [
            Producer(
                self.history.process(f"producer {n}", repeats=rich and not self.transactional and n == 0),
                rich and not self.transactional and n == 0,
                self.transactional,
            )
            for n in range(4)
        ]
        self.consumers = [Consumer(self.history.process(f"consumer {n}")) for n in range(4)]

    def later(self) -> float:
        self.time += self.rng.random() * 0.01 + 1e-6
        return self.time

    def grow(self, operations: int) -> History:
        actions: list[tuple[Callable[[], None], float]] = [
            (self.send, 8),
            (self.land, 8),
            (self.acknowledge, 8),
            (self.poll, 6),
        ]
        if self.rich:
            actions += [(self.skip, 1), (self.seek, 1), (self.ask_end, 1), (self.delete, 0.2)]
            actions += [(self.end_transaction, 2)] * self.transactional + [(self.compact, 1)] * self.compacted
        kinds, weights = [kind for kind, _ in actions], [weight for _, weight in actions]
        while len(self.history) < operations:
            for kind in self.rng.choices(kinds, weights, k=64):
                kind()
        return self.finish()

    # ---- producers ---------------------------------------------------------------------------------------

    def send(self) -> None:
        producer, rng = self.rng.choice(self.producers), self.rng
        partition = rng.randrange(len(self.logs))
        if producer.transactional and producer.transaction < 0:
            producer.transaction = self.history.begin(producer.process)
            self.ending[producer.transaction] = None
        value, self.next_value = self.next_value, self.next_value + 1
        key = rng.randrange(20) if self.compacted else -1
        self.keys[value] = key
        number = self.history.send(
            producer.process,
            self.logs[partition].name,
            value,
            self.later(),
            key=key,
            transaction=producer.transaction,
        )
        fate = "ok"
        if not producer.transactional and rng.random() < 0.15:
            fate = rng.choice(list(LANDS)[1:])
        producer.pending.setdefault(partition, deque()).append((number, value, fate))

    def land(self) -> None:
        producer = self.rng.choice(self.producers)
        queues = [partition for partition, queue in producer.pending.items() if queue]
        if queues:
            self.land_one(producer, self.rng.choice(queues))

    def land_one(self, producer: Producer, partition: int) -> None:
        number, value, fate = producer.pending[partition].popleft()
        if LANDS[fate]:
            offset = self.logs[partition].append(value, self.history.sends.transaction[number])
            if producer.repeats and self.rng.random() < 0.2:
                self.logs[partition].append(value)
            if fate == "ok":
                producer.landed.append((number, offset))
        if fate == "fails":
            self.history.failed(number, self.later())

    def acknowledge(self) -> None:
        producer = self.rng.choice(self.producers)
        if producer.landed:
            number, offset = producer.landed.pop(self.rng.randrange(len(producer.landed)))
            self.history.acknowledged(number, offset, self.later())

    def end_transaction(self) -> None:
        producer = self.rng.choice(self.producers)
        within = producer.transaction
        if within < 0:
            return
        for partition, queue in producer.pending.items():
            while queue:
                self.land_one(producer, partition)
        for number, offset in producer.landed:
            self.history.acknowledged(number, offset, self.later())
        producer.landed.clear()
        commits = self.rng.random() < 0.7
        self.history.ending(within, commits, self.later())
        self.ending[within] = commits
        for log in self.logs:
            log.end += within in log.transactions  # its marker
        if self.rng.random() < 0.9:
            self.history.ended(within, Outcome.OK, self.later())
        producer.transaction = -1

    # ---- logs --------------------------------------------------------------------------------------------

    def skip(self) -> None:
        """A control batch takes offsets."""
        self.rng.choice(self.logs).end += self.rng.randrange(1, 3)

    def compact(self) -> None:
        log = self.logs[0]
        newest = {self.keys[value]: n for n, value in enumerate(log.values)}
        kept = [
            n
            for n, value in enumerate(log.values)
            if newest[self.keys[value]] == n or self.rng.random() < 0.3
        ]
        log.offsets, log.values = [log.offsets[n] for n in kept], [log.values[n] for n in kept]
        log.transactions = [log.transactions[n] for n in kept]

    def delete(self) -> None:
        log = self.rng.choice(self.logs)
        if log.end - log.start < 40 or self.transactional:
            return
        log.start += self.rng.randrange((log.end - log.start) // 3)
        at = bisect_left(log.offsets, log.start)
        del log.offsets[:at], log.values[:at], log.transactions[:at]
        self.history.deleted(log.name, log.start)

    # ---- consumers ---------------------------------------------------------------------------------------

    def readable(self, log: Log) -> int:
        """Up to where a reader of committed transactions may read."""
        opened = [
            o for o, t in zip(log.offsets, log.transactions, strict=True) if t >= 0 and self.ending[t] is None
        ]
        return min(opened, default=log.end) if self.transactional else log.end

    def poll(self) -> None:
        consumer = self.rng.choice(self.consumers)
        self.poll_one(consumer, self.rng.randrange(len(self.logs)))

    def poll_one(self, consumer: Consumer, partition: int, final: bool = False) -> None:
        log = self.logs[partition]
        position = consumer.positions.get(partition)
        if position is None or position < log.start:
            position = log.start
            self.history.assigned(consumer.process, log.name)
        end = self.readable(log)
        lag = 0 if final else self.rng.randrange(4)
        at = bisect_left(log.offsets, position)
        until = min(bisect_left(log.offsets, max(end - lag, 0)), at + self.rng.randrange(self.most + 1))
        records = [
            (log.offsets[n], log.values[n])
            for n in range(at, until)
            if log.transactions[n] < 0 or self.ending[log.transactions[n]]
        ]
        begun = self.later()
        self.history.poll(
            consumer.process,
            log.name,
            position,
            begun,
            self.later(),
            records,
            high_watermark=end,
            final=final,
            committed=self.transactional,
        )
        consumer.positions[partition] = log.offsets[until - 1] + 1 if until > at else position

    def seek(self) -> None:
        consumer, partition = self.rng.choice(self.consumers), self.rng.randrange(len(self.logs))
        log = self.logs[partition]
        consumer.positions[partition] = self.rng.randint(log.start, log.end)
        self.history.assigned(consumer.process, log.name)

    def ask_end(self) -> None:
        consumer, log = self.rng.choice(self.consumers), self.rng.choice(self.logs)
        if not self.transactional:
            begun = self.later()
            self.history.end(consumer.process, log.name, log.end, begun, self.later())

    # ---- the end -----------------------------------------------------------------------------------------

    def finish(self) -> History:
        """Everything lands, is acknowledged, and is read by readers of its own."""
        for producer in self.producers:
            for partition, queue in producer.pending.items():
                while queue:
                    self.land_one(producer, partition)
            for number, offset in producer.landed:
                self.history.acknowledged(number, offset, self.later())
            if producer.transaction >= 0:
                self.end_transaction_of(producer)
        for partition, log in enumerate(self.logs):
            reader = Consumer(self.history.process(f"last reader of {log.name}"), {partition: log.start})
            self.history.assigned(reader.process, log.name)
            while (log.offsets or [-1])[-1] >= reader.positions[partition]:
                self.poll_one(reader, partition, final=True)
            self.history.finished(log.name, log.start, log.end)
        return self.history

    def end_transaction_of(self, producer: Producer) -> None:
        self.history.ending(producer.transaction, True, self.later())
        self.ending[producer.transaction] = True
        self.history.ended(producer.transaction, Outcome.OK, self.later())


def right_history(
    seed: int, operations: int = 600, *, rich: bool = True, partitions: int = 3, most: int = 6
) -> History:
    """A history in which nothing is wrong."""
    return Right(random.Random(seed), rich=rich, partitions=partitions, most=most).grow(operations)
