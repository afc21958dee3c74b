"""Whole clusters by seed whose topics are compacted all the time.

Each record has a key of its own, so nothing may ever be missing, and every invariant holds as it does without
compaction; what is tested is segments that are rewritten and swapped under replication, elections and power
cuts.  Producers that write twice are left out: compaction drops their first copy, on each replica when it
comes to it.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from barnabas.log.cleaning.compaction import Compaction
from barnabas.sim.cluster import setup
from barnabas.sim.cluster.clients import clients
from barnabas.sim.cluster.clients import producer as clients_producer
from barnabas.sim.cluster.seed_run import run_seed
from barnabas.sim.cluster.seeds import tell
from barnabas.wire.records import Record, write_batch

SEEDS = range(1, 6)
TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0.0",
    "segment.ms": "500",
    "internal.segment.bytes": "4000",
    "delete.retention.ms": "0",
}
NODE = {"log.cleaner.backoff.ms": "200", "log.cleaner.dedupe.buffer.size": "20000"}


def test_replicas_that_compact_each_on_its_own_keep_every_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    topic, properties = setup._topic, setup.Setup.properties
    rounds = {True: 0, False: 0}
    conclude = Compaction.conclude

    def compacted(rng: random.Random, number: int) -> setup.TopicPlan:
        plan = topic(rng, number)
        return setup.TopicPlan(plan.name, plan.partitions, tuple({**dict(plan.configs), **TOPIC}.items()))

    def keyed(records: list[Record], **header: Any) -> bytearray:
        return write_batch(
            [record._replace(key=(record.value or b"").split(b" ")[0]) for record in records], **header
        )

    def counted(cleaning: Compaction) -> bool:
        rounds[done := conclude(cleaning)] += 1
        return done

    monkeypatch.setattr(setup, "_topic", compacted)
    monkeypatch.setattr(setup.Setup, "properties", lambda self, node: {**properties(self, node), **NODE})
    monkeypatch.setattr(clients, "_MANNERS", 2 * tuple(m for m in clients._MANNERS if m.idempotent))
    monkeypatch.setattr(clients_producer, "write_batch", keyed)
    monkeypatch.setattr(Compaction, "conclude", counted)
    for seed in SEEDS:
        report = run_seed(seed)
        assert report.ok, "\n".join(tell(run_seed(seed, story=True)))
    assert rounds[True] > 10 * len(SEEDS)
