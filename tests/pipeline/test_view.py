"""The cluster as tasks and planning see it: patience with a node that starts, and with stale knowledge."""

from __future__ import annotations

import contextlib
import threading
from types import SimpleNamespace

import pytest
from tests.client.fake_broker import FakeBroker
from tests.patience import PATIENCE_S

from barnabas.client.connection import ConnectionFailed
from barnabas.model import TopicPartition, Uuid
from barnabas.pipeline import view
from barnabas.pipeline.options import SourceOptions
from barnabas.pipeline.plan import Range
from barnabas.pipeline.source import BatchReader
from barnabas.wire.schemas.cluster import ApiVersionsRequest, MetadataRequest
from barnabas.wire.schemas.offsets import ListOffsetsRequest

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
        return SimpleNamespace(id=self.id, partitions={0: None})

    def find(self, names: list[str]) -> dict[str, SimpleNamespace]:
        self.misses -= 1
        return {} if self.misses >= 0 else {name: self.topic(name) for name in names}

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
    assert view.ClientView(OPTIONS).topics(["t"]) == {"t": (OLD, [0])}
    monkeypatch.setattr(view, "PATIENCE_WITH_A_MISSING_TOPIC", -1.0)
    cluster.misses = 1
    assert view.ClientView(OPTIONS).topics(["t"]) == {}


def test_a_plan_of_sixty_topics_on_three_brokers_asks_seven_times() -> None:
    """One Metadata, and to each leader one ListOffsets for where the topics begin and one for where they end."""
    topics = {f"t{number}": 2 for number in range(60)}
    cluster: list[FakeBroker] = []
    with contextlib.ExitStack() as stack:
        brokers = [
            stack.enter_context(FakeBroker(node=node, cluster=cluster, **topics)) for node in (1, 2, 3)
        ]
        leaders = {where: (int(where[0][1:]) + where[1]) % 3 + 1 for where in brokers[0].partitions}
        everybody = threading.Barrier(3)  # no broker answers before each of them is asked
        for broker in brokers:
            broker.leaders = leaders
            broker.on(ListOffsetsRequest, lambda _: everybody.wait(PATIENCE_S) * 0 or None)
        given = {"kafka.bootstrap.servers": brokers[0].address, "subscribe": ",".join(topics)}
        options = SourceOptions.parse(given, streaming=False)
        assert BatchReader(options).partitions() == []
        asked = [request for broker in brokers for request in broker.seen]
    assert sum(isinstance(request, MetadataRequest) for request in asked) == 1
    assert sum(isinstance(request, ListOffsetsRequest) for request in asked) == 6
    assert {type(request) for request in asked} == {ApiVersionsRequest, MetadataRequest, ListOffsetsRequest}
