"""The cluster as tasks and planning see it: patience with a node that starts, and with stale knowledge."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from barnabas.client.connection import ConnectionFailed
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import TopicPartition, Uuid
from barnabas.pipeline import view
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.plan import Range

OPTIONS = SourceOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}, streaming=True)
OLD, NEW = Uuid(b"o" * 16), Uuid(b"n" * 16)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "PAUSE", 0.0)


def test_a_connection_that_fails_is_tried_again_until_the_time_is_over() -> None:
    answers = [ConnectionFailed("no"), ConnectionFailed("no"), None]

    def question() -> str:
        if error := answers.pop(0):
            raise error
        return "here"

    assert view.patiently(question, 60.0) == "here"
    answers[:] = [ConnectionFailed("no")]
    with pytest.raises(ConnectionFailed):
        view.patiently(question, -1.0)


class Cluster:
    """What the view uses of a client's cluster: it knows a topic by an old id until told to forget it."""

    def __init__(self) -> None:
        self.id, self.misses = OLD, 0

    def cluster_id(self) -> str:
        return "c"

    def topic(self, name: str, refresh: bool = False) -> SimpleNamespace:
        if self.misses:
            self.misses -= 1
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)
        return SimpleNamespace(id=self.id, partitions={0: None})

    def forget(self, name: str) -> None:
        self.id = NEW


@pytest.mark.parametrize(("planned", "known"), [(NEW, NEW), (OLD, OLD)])
def test_a_worker_forgets_what_is_older_than_the_plan(
    monkeypatch: pytest.MonkeyPatch, planned: Uuid, known: Uuid
) -> None:
    cluster = Cluster()
    monkeypatch.setattr(view, "shared_cluster", lambda _: cluster)
    monkeypatch.setattr(view, "fetch_range", lambda *args, **named: iter([named["topic_id"]]))
    assert list(view.fetch(OPTIONS, Range(TopicPartition("t", 0), planned, 0, 1))) == [planned]
    assert cluster.id == known


def test_a_topic_is_missing_only_when_it_stays_so(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(view, "shared_cluster", lambda _: cluster)
    cluster.misses = 3
    assert view.ClientView(OPTIONS).topic("t") == (OLD, [0])
    monkeypatch.setattr(view, "PATIENCE_WITH_A_MISSING_TOPIC", -1.0)
    cluster.misses = 1
    with pytest.raises(KafkaError):
        view.ClientView(OPTIONS).topic("t")
