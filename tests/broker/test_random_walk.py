"""Random lives of a broker over a disk that crashes: what was promised holds after every step.

- an acknowledged record is at its offset, once, whatever crashes afterwards;
- nobody sees an offset before it is durable, and one offset always gives the same record;
- every request is answered exactly once, and nothing that is answered stays on any list.
"""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.broker.harness import PAGE_CACHE, Answer, Node, batch

from barnabas.errors import ErrorCode
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, read_records

STEPS = 150
PARTITIONS = 2


class Life:
    """A node, what its clients were told, and the dice."""

    def __init__(self, seed: int, mode: str) -> None:
        self.dice = random.Random(seed)
        self.disk = MemoryDisk()
        self.settings = {"log_flush_interval_messages": mode}
        self.node = Node(self.disk, **self.settings)
        self.node.create("t", PARTITIONS)
        self.durable_mode = mode == "1"
        self.number = 0
        self.sequences = [0] * PARTITIONS
        self.last = [bytearray()] * PARTITIONS
        self.waiting: list[tuple[Answer, int, str]] = []
        self.fetches: list[tuple[Answer, int]] = []
        self.acknowledged: dict[tuple[int, int], str] = {}
        self.seen: dict[tuple[int, int], bytes] = {}

    def produce(self) -> None:
        index = self.dice.randrange(PARTITIONS)
        value = f"value-{self.number}"
        self.number += 1
        numbered: dict[str, Any] = {}
        if self.dice.random() < 0.5:
            numbered = {"producer_id": 1, "producer_epoch": 0, "base_sequence": self.sequences[index]}
            self.sequences[index] += 1
            self.last[index] = batch(value, **numbered)
        answer = self.node.produce(batch(value, **numbered), index=index, timeout_ms=400)
        self.waiting.append((answer, index, value))

    def repeat(self) -> None:
        """Send the last numbered batch of a partition once more, as a producer does after a timeout."""
        index = self.dice.randrange(PARTITIONS)
        if self.last[index]:
            self.node.produce(self.last[index][:], index=index)

    def fetch(self) -> None:
        index = self.dice.randrange(PARTITIONS)
        partition = self.node.broker.partition("t", index)
        assert partition is not None
        offset = self.dice.randint(0, partition.high_watermark)
        wait = self.dice.choice((0, 300))
        answer = self.node.fetch(
            {("t", index): offset}, max_wait_ms=wait, min_bytes=self.dice.choice((1, 500))
        )
        self.fetches.append((answer, index))

    def write(self) -> None:
        self.node.write()

    def sync(self) -> None:
        self.node.sync()

    def pass_time(self) -> None:
        self.node.after(self.dice.choice((0.01, 0.2)))

    def hang_up(self) -> None:
        """A client goes away."""
        for answer, *_ in (*self.waiting, *self.fetches):
            if not answer.here and answer.waiting is not None and self.dice.random() < 0.3:
                answer.waiting.cancel()

    def crash(self) -> None:
        self.collect()
        self.waiting.clear()
        self.fetches.clear()
        self.disk.crash("all" if self.durable_mode else "none")
        self.node = Node(self.disk, image=self.node.image, **self.settings)
        self.node.turn()
        self.sequences = [self.next_sequence(index) for index in range(PARTITIONS)]
        self.last = [bytearray()] * PARTITIONS  # it may be lost, and its sequence is then another's

    def next_sequence(self, index: int) -> int:
        partition = self.node.broker.partition("t", index)
        assert partition is not None
        state = partition.log.producers.get(1)
        return 0 if state is None else state.next_sequence

    def collect(self) -> None:
        """Read what was answered since the last look, and hold the node to it."""
        for answer, index, value in self.waiting:
            assert answer.count <= 1
            if answer.here and answer.error == ErrorCode.NONE:
                self.acknowledged[index, answer.produced.base_offset] = value
        for answer, index in self.fetches:
            assert answer.count <= 1
            if answer.here and answer.fetched.error_code == ErrorCode.NONE:
                self.look(index, bytes(answer.fetched.records), answer.fetched.high_watermark)
        self.waiting = [entry for entry in self.waiting if not entry[0].here]
        self.fetches = [entry for entry in self.fetches if not entry[0].here]

    def look(self, index: int, raw: bytes, high_watermark: int) -> None:
        partition = self.node.broker.partition("t", index)
        assert partition is not None
        assert high_watermark <= partition.log.acknowledged_end_offset
        for position, header in batches(raw):
            assert header.last_offset < high_watermark
            for record in read_records(raw, position, header):
                known = self.seen.setdefault((index, record.offset), record.value or b"")
                assert known == record.value

    def check_the_log(self) -> None:
        for index in range(PARTITIONS):
            partition = self.node.broker.partition("t", index)
            assert partition is not None
            raw = partition.read(0, 1 << 30).read()
            stored = {
                record.offset: (record.value or b"").decode()
                for position, header in batches(raw)
                for record in read_records(raw, position, header)
            }
            assert len(set(stored.values())) == len(stored), "a record is there twice"
            for (where, offset), value in self.acknowledged.items():
                if where == index:
                    assert stored.get(offset) == value, f"{value} was acknowledged at {index}@{offset}"

    def end(self) -> None:
        self.node.turn()
        self.node.after(10)
        self.node.turn()
        answers = [entry[0] for entry in (*self.waiting, *self.fetches)]
        assert all(answer.here or answer.waiting.done for answer in answers if answer.waiting is not None)
        self.collect()
        self.check_the_log()
        assert len(self.node.broker.purgatory) == 0
        for index in range(PARTITIONS):
            partition = self.node.broker.partition("t", index)
            assert partition is not None
            assert len(partition.watchers) == 0
            assert len(partition.acknowledgements) == 0


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
@pytest.mark.parametrize("seed", range(12))
def test_what_was_promised_holds(seed: int, mode: str) -> None:
    life = Life(seed, mode)
    steps = [
        (life.produce, 10),
        (life.repeat, 1),
        (life.fetch, 5),
        (life.write, 5),
        (life.sync, 4),
        (life.pass_time, 2),
        (life.hang_up, 1),
        (life.crash, 1),
    ]
    names = [step for step, weight in steps for _ in range(weight)]
    for _ in range(STEPS):
        life.dice.choice(names)()
        life.collect()
    life.end()
    assert life.acknowledged
