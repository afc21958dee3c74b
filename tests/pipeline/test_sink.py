"""The sink's two phases over a real node: every row of a micro-batch is there once, whatever dies on the way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pipeline.sink_histories import History, committed

from barnabas.client.admin.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.pipeline.sink import task as task_module
from barnabas.pipeline.sink.batch import SinkDriver
from barnabas.pipeline.sink.options import SinkOptions
from barnabas.pipeline.sink.task import _Worker, write_prepared
from barnabas.testing.cluster import Cluster as Kafka

SEEDS = 24


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Kafka() as kafka:
        yield kafka.bootstrap


@pytest.mark.parametrize("seed", range(SEEDS))
def test_whatever_dies_every_row_is_there_once(bootstrap: str, seed: int) -> None:
    topic = f"out-{seed}"
    with Admin(bootstrap) as admin:
        admin.create_topic(topic, partitions=2)
    history = History(bootstrap, topic, f"sink-{seed}", seed)
    history.run()
    assert committed(bootstrap, topic) == history.expected()


def test_brokers_that_keep_nothing_for_ever_are_warned_of_once_whatever_workers_there_are(
    bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Admin(bootstrap) as admin:
        admin.create_topic("warned", partitions=2)
    options = SinkOptions.parse(
        {"kafka.bootstrap.servers": bootstrap, "topic": "warned", "kafka.transaction.timeout.ms": "60000"}
    )
    driver = SinkDriver(bootstrap, Cluster(bootstrap), "warned")
    try:
        for batch in range(2):
            claim = driver.begin()
            done = []
            for worker in range(2):
                task_module._workers.clear()  # another process
                row = ("warned", f"{batch}-{worker}", None, None, (), None, None)
                done.append(write_prepared(options, "warned", claim, batch, iter([row])))
            driver.commit(batch, done)
    finally:
        driver.close()
    assert committed(bootstrap, "warned").total() == 4
    said = [record.getMessage() for record in caplog.records if "keep a prepared" in record.getMessage()]
    assert len(said) == 1 and "for 60 s at most" in said[0]


def test_a_worker_prepares_nothing_twice_under_one_id_while_queries_take_turns() -> None:
    """One Spark session runs several queries, and its workers tasks of all of them."""
    worker = _Worker()
    turns = [("a", 5), ("b", 3), ("a", 5), ("b", 3), ("a", 4), ("a", 5)]
    ids = [worker.next_id(name, batch) for name, batch in turns]
    assert len(set(ids)) == len(turns)
    assert worker.next_id("a", 6) == ids[0], "the next micro-batch uses them again"
