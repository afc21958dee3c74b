"""The producer against a broker that goes wrong on purpose: every record once, in order, or an error."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from tests.client.conftest import Clients
from tests.client.fake_broker import CLOSE, FakeBroker
from tests.patience import PATIENCE_S

from barnabas.client.producer import Delivered, Fate, Producer
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.wire.records import batches, read_records
from barnabas.wire.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.schemas.transactions import InitProducerIdRequest


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker(t=1, u=4) as broker:
        yield broker


def refusing(request: ProduceRequest, code: ErrorCode) -> ProduceResponse:
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=d.index, error_code=code, base_offset=-1)
                    for d in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def test_records_arrive_in_order_and_say_where(clients: Clients, broker: FakeBroker) -> None:
    with clients.producer(broker.address, linger=0) as producer:
        deliveries = [producer.send("t", f"v{n}", timestamp=n) for n in range(100)]
        assert deliveries[0].result(PATIENCE_S) == Delivered("t", 0, 0, 0)
        producer.flush()
        assert [d.result().offset for d in deliveries] == list(range(100))
        assert all(d.done() for d in deliveries)
        assert producer.statistics().records == 0
    assert broker.values("t") == [f"v{n}".encode() for n in range(100)]


def test_key_headers_and_timestamp_travel(clients: Clients, broker: FakeBroker) -> None:
    with clients.producer(broker.address) as producer:
        producer.send("t", None, key="k", headers={"a": b"1", "b": None}, timestamp=5).result(PATIENCE_S)
    raw = broker.partitions["t", 0]
    [(at, header)] = batches(raw)
    [record] = read_records(raw, at, header)
    assert (record.key, record.value, record.timestamp) == (b"k", None, 5)
    assert tuple(record.headers) == (("a", b"1"), ("b", None))


def test_one_key_always_goes_to_one_partition(clients: Clients, broker: FakeBroker) -> None:
    with clients.producer(broker.address) as producer:
        placed = {producer.send("u", b"x", key=b"21").result(PATIENCE_S).partition for _ in range(5)}
    assert placed == {(-973932308 & 0x7FFFFFFF) % 4}


def test_a_partition_that_is_not_there_is_refused_at_once(clients: Clients, broker: FakeBroker) -> None:
    with (
        clients.producer(broker.address) as producer,
        pytest.raises(KafkaError, match="partitions 0 to 3, no 4") as caught,
    ):
        producer.send("u", b"x", partition=4)
    assert "barnabas topics grow u --partitions 5" in (caught.value.next_step or "")


@pytest.mark.parametrize("partition", [-1, -(2**31)])
def test_no_advice_to_grow_comes_with_a_negative_partition(
    clients: Clients, broker: FakeBroker, partition: int
) -> None:
    with clients.producer(broker.address) as producer, pytest.raises(KafkaError) as caught:
        producer.send("u", b"x", partition=partition)
    assert "grow" not in (caught.value.next_step or "grow")


def test_a_lost_answer_leaves_the_record_once(clients: Clients, broker: FakeBroker) -> None:
    """The batch was appended, the answer never came: repeated, it is recognised by its sequence."""
    lost = iter([True])

    def lose(request: Any) -> Any:
        if next(lost, False):
            broker._usual(request, 9)
            return CLOSE
        return None

    broker.on(ProduceRequest, lose)
    with clients.producer(broker.address) as producer:
        producer.send("t", b"once").result(PATIENCE_S)
    assert broker.values("t") == [b"once"]
    assert len(broker.asked(ProduceRequest)) == 2


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS])
def test_a_passing_error_is_repeated(clients: Clients, broker: FakeBroker, code: ErrorCode) -> None:
    errors = iter([code, code])
    broker.on(ProduceRequest, lambda r: refusing(r, c) if (c := next(errors, None)) else None)
    with clients.producer(broker.address) as producer:
        assert producer.send("t", b"x").result(PATIENCE_S).offset == 0
    assert len(broker.asked(ProduceRequest)) == 3


def test_a_final_error_reaches_the_one_who_asks(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    producer = Producer(broker.address)
    delivery = producer.send("t", b"x")
    with pytest.raises(KafkaError) as caught:
        delivery.result(PATIENCE_S)
    assert caught.value.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    producer.send("t", b"nobody asks for this one")
    with pytest.raises(KafkaError):
        producer.flush(PATIENCE_S)  # nobody had a callback: flush says it once
    producer.flush(PATIENCE_S)
    producer.close()


def test_an_error_that_result_has_told_is_not_raised_again_at_the_end(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    with Producer(broker.address) as producer, pytest.raises(KafkaError):
        producer.send("t", b"x").result(PATIENCE_S)


def test_a_callback_of_one_record_does_not_hide_the_error_of_the_one_beside_it(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    producer = Producer(broker.address, linger=PATIENCE_S)
    producer.send("t", b"told", partition=0, on_delivery=lambda _: None)
    producer.send("t", b"untold", partition=0)
    with pytest.raises(KafkaError):
        producer.flush(PATIENCE_S)
    producer.close()


def test_a_callback_hears_of_success_and_of_failure(broker: FakeBroker) -> None:
    heard: list[Any] = []
    with Producer(broker.address) as producer:
        producer.send("t", b"x", on_delivery=heard.append)
        producer.flush(PATIENCE_S)
        broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.INVALID_RECORD))
        producer.send("t", b"y", on_delivery=heard.append)
        producer.flush(PATIENCE_S)
    assert isinstance(heard[0], Delivered)
    assert isinstance(heard[1], KafkaError)


def test_after_a_failure_the_next_records_are_not_out_of_order(clients: Clients, broker: FakeBroker) -> None:
    """A failed batch leaves a gap in the sequence: the partition goes on under another producer id."""
    once = iter([ErrorCode.INVALID_RECORD])
    broker.on(ProduceRequest, lambda r: refusing(r, c) if (c := next(once, None)) else None)
    with clients.producer(broker.address) as producer:
        with pytest.raises(KafkaError):
            producer.send("t", b"bad").result(PATIENCE_S)
        producer.send("t", b"good").result(PATIENCE_S)
    assert broker.values("t") == [b"good"]
    assert len(broker.asked(InitProducerIdRequest)) == 2


def test_a_sequence_the_broker_cannot_place_begins_another_identity(
    clients: Clients, broker: FakeBroker
) -> None:
    with clients.producer(broker.address) as producer:
        producer.send("t", b"one").result(PATIENCE_S)
        broker._sequences.clear()  # the broker has forgotten us
        producer.send("t", b"two").result(PATIENCE_S)
    assert broker.values("t") == [b"one", b"two"]


def test_a_batch_too_large_for_the_broker_is_halved(clients: Clients, broker: FakeBroker) -> None:
    def picky(request: ProduceRequest) -> Any:
        [data] = request.topic_data[0].partition_data
        [(_, header)] = batches(data.records or b"")
        return refusing(request, ErrorCode.MESSAGE_TOO_LARGE) if header.count > 2 else None

    broker.on(ProduceRequest, picky)
    with clients.producer(broker.address, linger=5) as producer:
        deliveries = [producer.send("t", b"%d" % n) for n in range(8)]
        producer.flush()
        assert [d.result().offset for d in deliveries] == list(range(8))
    assert broker.values("t") == [b"%d" % n for n in range(8)]


def test_one_record_too_large_is_an_error(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.MESSAGE_TOO_LARGE))
    producer = Producer(broker.address)
    with pytest.raises(KafkaError) as caught:
        producer.send("t", b"x").result(PATIENCE_S)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes of t " in (caught.value.next_step or "")
    producer.abandon()


def test_a_topic_that_went_away_meanwhile_is_an_error_that_says_where_to_look(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    producer = Producer(broker.address, delivery_timeout=0.2)
    with pytest.raises(KafkaError) as caught:
        producer.send("t", b"x").result(PATIENCE_S)
    assert caught.value.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert caught.value.next_step == "see whether it is there: barnabas topics describe t"
    producer.abandon()


def test_acks_0_asks_for_no_answer_and_knows_no_offset(clients: Clients, broker: FakeBroker) -> None:
    with clients.producer(broker.address, acks=0) as producer:
        assert producer.send("t", b"x").result(PATIENCE_S).offset == -1
        assert producer.send("t", b"y", partition=0).result(PATIENCE_S).offset == -1
    with clients.producer(broker.address) as producer:  # its answer comes behind them
        producer.send("u", b"z").result(PATIENCE_S)
    assert not broker.asked(InitProducerIdRequest)[1:]


def test_without_idempotence_no_producer_id_is_asked_for(clients: Clients, broker: FakeBroker) -> None:
    with clients.producer(broker.address, idempotent=False) as producer:
        producer.send("t", b"x").result(PATIENCE_S)
    assert broker.asked(InitProducerIdRequest) == []


def test_too_late_is_an_error_and_not_a_silence(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.NOT_ENOUGH_REPLICAS))
    producer = Producer(broker.address, delivery_timeout=0.2)
    with pytest.raises(KafkaError, match="NOT_ENOUGH_REPLICAS"):
        producer.send("t", b"x").result(PATIENCE_S)
    producer.abandon()


def test_cve_2026_35554_a_batch_that_timed_out_under_way_lends_its_bytes_to_no_other_topic(
    broker: FakeBroker,
) -> None:
    """Its buffer went back to the pool while a socket still had to send it."""
    goes_on = threading.Event()
    broker.on(ProduceRequest, lambda _: None if goes_on.wait(PATIENCE_S) else CLOSE)
    producer = Producer(
        broker.address, delivery_timeout=0.3, request_timeout=1.0, linger=0, batch_size=1 << 22
    )
    stuck = [producer.send("t", b"t" * 3_000_000), producer.send("t", b"t" * 3_000_000)]
    for delivery in stuck:
        with pytest.raises(BarnabasError):
            delivery.result(PATIENCE_S)
    with suppress(BarnabasError):
        for _ in range(8):
            producer.send("u", b"u" * 3_000_000)
    goes_on.set()
    producer.abandon()
    with Producer(broker.address) as again:
        again.send("u", b"u").result(PATIENCE_S)
    assert set().union(*broker.values("t")) <= {ord("t")}
    assert set().union(*(value for partition in range(4) for value in broker.values("u", partition))) == {
        ord("u")
    }


def test_a_full_buffer_makes_send_wait(clients: Clients, broker: FakeBroker) -> None:
    with clients.producer(broker.address, buffer=2000, batch_size=500, linger=0) as producer:
        for n in range(200):
            producer.send("t", b"%0100d" % n)
        producer.flush()
    assert len(broker.values("t")) == 200


def test_a_closed_producer_says_so(clients: Clients, broker: FakeBroker) -> None:
    producer = clients.producer(broker.address)
    producer.close()
    with pytest.raises(BarnabasError, match="closed"):
        producer.send("t", b"x")


def test_senseless_settings_are_refused(clients: Clients, broker: FakeBroker) -> None:
    for wrong in ({"acks": 2}, {"compression": "rar"}, {"acks": 1, "idempotent": True}):
        with pytest.raises(ValueError):
            clients.producer(broker.address, **wrong)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read_back(clients: Clients, broker: FakeBroker, codec: str) -> None:
    with clients.producer(broker.address, compression=codec, linger=5) as producer:
        for n in range(50):
            producer.send("t", b"%d" % n)
    assert broker.values("t") == [b"%d" % n for n in range(50)]


def test_a_producer_that_stops_at_an_error_sends_nothing_after_it(
    clients: Clients, broker: FakeBroker
) -> None:
    once = iter([ErrorCode.NONE, ErrorCode.INVALID_RECORD])
    broker.on(ProduceRequest, lambda r: refusing(r, c) if (c := next(once, None)) else None)
    producer = clients.producer(broker.address, batch_size=1, linger=5, stop_at_error=True)
    stored, *others = [producer.send("t", b"%d" % n) for n in range(4)]
    raising: list[Callable[[], object]] = [
        producer.flush,
        lambda: producer.send("t", b"late"),
        producer.close,
    ]
    for call in [*raising, *(other.result for other in others)]:
        with pytest.raises(KafkaError) as caught:
            call()
        assert caught.value.code == ErrorCode.INVALID_RECORD
    assert stored.result().offset == 0 and broker.values("t") == [b"0"]
    if clients.kind == "threads":
        assert [d.fate() for d in (stored, *others)] == [Fate.STORED] + [Fate.NOT_STORED] * 3


def test_a_callback_hears_that_its_record_waited_behind_an_error(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.INVALID_RECORD))
    heard: list[Any] = []
    producer = Producer(broker.address, batch_size=1, linger=5, stop_at_error=True)
    for value in (b"refused", b"waits"):
        producer.send("t", value, on_delivery=heard.append)
    with pytest.raises(KafkaError):
        producer.close()
    assert [error.code for error in heard] == [ErrorCode.INVALID_RECORD] * 2


def test_a_record_whose_answer_was_lost_has_an_unknown_fate(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda _: CLOSE)
    producer = Producer(broker.address, delivery_timeout=0.3, stop_at_error=True)
    lost = producer.send("t", b"sent")
    with pytest.raises(BarnabasError):
        producer.flush(PATIENCE_S)
    producer.abandon()
    assert lost.done() and lost.fate() is Fate.UNKNOWN


def test_the_halves_of_a_batch_too_large_are_known_to_be_refused(broker: FakeBroker) -> None:
    broker.on(ProduceRequest, lambda r: refusing(r, ErrorCode.MESSAGE_TOO_LARGE))
    producer = Producer(broker.address, linger=5, stop_at_error=True)
    deliveries = [producer.send("t", b"x") for _ in range(4)]
    with pytest.raises(KafkaError):
        producer.flush(PATIENCE_S)
    assert [d.fate() for d in deliveries] == [Fate.NOT_STORED] * 4
    producer.abandon()
