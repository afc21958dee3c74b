"""A log directory under random orders: topics made, deleted and made again under their names, records acknowledged
or not, retention, deletions of records, checkpoints, clean stops and power cuts.

Whatever the order: what was acknowledged of a topic that is still there is there, nothing of an earlier topic of
its name is, and the log start only moves forward between two checkpoints.
"""

from __future__ import annotations

import random

import pytest
from tests.log.log_building import NOW, append, batch, contents, small, tick
from tests.log.test_log_directories import formatted, opened

from barnabas.log.log import Log
from barnabas.model import Now, Offset, TopicPartition, Uuid

WALKS = 150


class Walk:
    """One node's directory, the metadata that survives everything, and what producers were told."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.disk = formatted("/d0", seed=seed)
        self.now = NOW
        self.logs = opened(self.disk, config=small())
        self.topics: dict[TopicPartition, Uuid] = {}
        self.sent: dict[TopicPartition, dict[Offset, bytes]] = {}
        self.safe: dict[TopicPartition, Offset] = {}
        self.made = self.count = 0

    def step(self) -> None:
        passed = self.chance.choice([0.1, 1, 70])
        self.now = Now(self.now.mono + passed, self.now.wall_ms + 1000)
        where = TopicPartition(self.chance.choice("ab"), 0)
        log = self.logs.get(where)
        if log is None:
            if self.chance.random() < 0.5:
                self.make(where)
            return
        acts = [self.append] * 10 + [self.delete] * 2 + [self.delete_records, self.retain]
        self.chance.choice([*acts, self.checkpoint, self.checkpoint, self.restart, self.restart])(where, log)
        tick(self.logs, self.now)

    def make(self, where: TopicPartition) -> None:
        self.made += 1
        self.topics[where] = Uuid.of(9, self.made)
        self.sent[where], self.safe[where] = {}, 0
        self.logs.create(where, self.topics[where], self.now)

    def delete(self, where: TopicPartition, log: Log) -> None:
        del self.topics[where], self.sent[where], self.safe[where]
        self.logs.delete(where, self.now)
        self.logs.settle()

    def append(self, where: TopicPartition, log: Log) -> None:
        for _ in range(self.chance.randrange(1, 8)):
            self.count += 1
            value = b"%s %d " % (self.topics[where].hex().encode(), self.count) + b"x" * (self.count % 190)
            self.sent[where][append(log, batch(value)).first_offset] = value
        log.write()
        if self.chance.random() < 0.7 and (job := log.begin_sync()) is not None:
            job.run()
            log.finish_sync(job)
            self.safe[where] = log.high_watermark = log.durable_end_offset

    def delete_records(self, where: TopicPartition, log: Log) -> None:
        log.increment_log_start(self.chance.randint(log.log_start_offset, log.high_watermark))

    def retain(self, where: TopicPartition, log: Log) -> None:
        delay = self.chance.choice([0, 60_000])
        log.reconfigure(small(retention_bytes=self.chance.choice([-1, 0, 3000]), file_delete_delay_ms=delay))
        log.retain(self.now)

    def checkpoint(self, where: TopicPartition, log: Log) -> None:
        self.logs.checkpoint_recovery_points()
        self.logs.checkpoint_high_watermarks()

    def restart(self, where: TopicPartition, log: Log) -> None:
        starts = {tp: (self.logs.get(tp) or log).log_start_offset for tp in self.topics}
        if self.chance.random() < 0.4:
            self.logs.close(self.now)
            self.safe = {tp: max(self.sent[tp], default=-1) + 1 for tp in self.topics}
            self.disk.crash("all")
        else:
            self.disk.crash(self.chance.choice(["all", "some", "some", "none"]))
        self.logs = opened(self.disk, config=small(), now=self.now)
        for found in list(self.logs.all_logs()):
            if found.topic_id not in (None, self.topics.get(found.topic_partition)):
                self.logs.stray(found.topic_partition)
        for tp, topic_id in self.topics.items():
            self.check(tp, topic_id, starts[tp])

    def check(self, where: TopicPartition, topic_id: Uuid, start: Offset) -> None:
        log = self.logs.get(where)
        if log is None:
            assert self.safe[where] <= start, f"{where} is gone"
            log = self.logs.create(where, topic_id, self.now)
        elif log.topic_id is None:
            log.belongs_to(topic_id)
        log.high_watermark = log.durable_end_offset
        assert log.log_start_offset <= start <= max(start, self.safe[where]) <= log.log_end_offset
        there = dict(contents(log))
        for offset, value in self.sent[where].items():
            if start <= offset < self.safe[where]:
                assert there.get(offset) == value
        assert all(value and value.startswith(topic_id.hex().encode()) for value in there.values())
        self.sent[where] = {offset: value for offset, value in there.items() if value is not None}
        self.safe[where] = log.log_end_offset


@pytest.mark.parametrize("first", range(0, WALKS, 50))
def test_whatever_the_order_what_was_acknowledged_is_there_and_belongs_to_its_topic(first: int) -> None:
    for seed in range(first, first + 50):
        walk = Walk(seed)
        try:
            for _ in range(80):
                walk.step()
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
