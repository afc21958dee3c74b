"""What a producer holds back: batches, their order, their sequence numbers."""

from __future__ import annotations

from barnabas.client.connection import ConnectionFailed
from barnabas.client.producing.batching import Accumulator, Batch, Identity
from barnabas.client.producing.dispatch import Dispatch, Outcome
from barnabas.model import TopicPartition
from barnabas.wire.records import batches, read_batch_header, read_records

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ME = Identity(7, 0)


def add(
    box: Accumulator, target: TopicPartition = T0, *, size: int = 10, now: float = 0.0
) -> tuple[Batch, int, bool]:
    return box.add(target, now, size, 1000, None, b"x")


def ready(box: Accumulator, now: float, *, flushing: bool = False) -> list[Batch]:
    return box.take_ready(now, flushing=flushing)[0]


def test_a_batch_waits_for_company_until_it_has_lingered() -> None:
    box = Accumulator(batch_size=100, linger=0.5)
    add(box, now=1.0)
    assert box.take_ready(1.2, flushing=False) == ([], 1.5)
    assert [len(b.records) for b in ready(box, 1.5)] == [1]


def test_a_full_batch_goes_at_once() -> None:
    box = Accumulator(batch_size=20, linger=99)
    assert [add(box)[2], add(box)[2]] == [True, True]  # began a batch; filled it
    assert [len(b.records) for b in ready(box, 0)] == [2]


def test_flushing_sends_everything() -> None:
    box = Accumulator(batch_size=100, linger=99)
    add(box, T0)
    add(box, T1)
    assert [b.target for b in ready(box, 0, flushing=True)] == [T0, T1]


def test_of_each_partition_one_batch_is_under_way() -> None:
    box = Accumulator(batch_size=10, linger=0)
    add(box)
    add(box)
    [first] = ready(box, 0)
    assert ready(box, 0) == []
    box.finish(first)
    [second] = ready(box, 0)
    assert second is not first
    assert box.statistics() == (1, 10, 1)


def test_a_record_never_joins_a_batch_that_has_been_sent() -> None:
    box = Accumulator(batch_size=100, linger=0)
    add(box)
    [first] = ready(box, 0)
    second, index, _ = add(box)
    assert (second is first, index) == (False, 0)


def test_sequences_go_on_from_batch_to_batch_and_stay_when_repeated() -> None:
    box = Accumulator(batch_size=30, linger=0)
    for _ in range(4):
        add(box)
    [first] = ready(box, 0)
    once = bytes(box.encode(first, ME, 0))
    box.give_back(first, not_before=1.0)
    assert box.take_ready(0.5, flushing=False) == ([], 1.0)
    [again] = ready(box, 1.0)
    assert again is first
    assert bytes(box.encode(again, ME, 0)) == once
    box.finish(first)
    [second] = ready(box, 1.0)
    header = read_batch_header(box.encode(second, ME, 0))
    assert (header.base_sequence, header.producer_id, header.count) == (3, 7, 1)


def test_sequences_wrap_after_the_largest_int32() -> None:
    box = Accumulator(batch_size=1, linger=0)
    add(box)
    [batch] = ready(box, 0)
    box.queues[T0].next_sequence = 2**31 - 1
    box.encode(batch, ME, 0)
    assert box.queues[T0].next_sequence == 0


def test_a_new_identity_begins_at_sequence_0_even_for_what_was_encoded() -> None:
    box = Accumulator(batch_size=10, linger=0)
    add(box)
    add(box)
    [first] = ready(box, 0)
    box.queues[T0].next_sequence = 41
    box.encode(first, ME, 0)
    box.queues[T0].new_identity()
    header = read_batch_header(box.encode(first, Identity(8, 0), 0))
    assert (header.producer_id, header.base_sequence) == (8, 0)


def test_halves_take_the_place_of_a_batch_and_keep_order_sequences_and_callbacks() -> None:
    box = Accumulator(batch_size=30, linger=0)
    heard: list[str] = []
    for number in range(3):
        batch, index, _ = add(box)
        batch.callbacks.append((index, lambda _, n=number: heard.append(f"{n}")))
    [batch] = ready(box, 0)
    box.encode(batch, ME, 0)
    box.split(batch)
    [first] = ready(box, 0)
    raw = box.encode(first, ME, 0)
    assert [r.offset for r in read_records(raw, 0, read_batch_header(raw))] == [0]
    assert first.sequence == 0
    box.finish(first)
    [second] = ready(box, 0)
    raw = box.encode(second, ME, 0)
    assert [(h.base_sequence, h.count) for _, h in batches(raw)] == [(1, 2)]
    assert [batch.part_of(n) for n in range(3)] == [(first, 0), (second, 0), (second, 1)]
    assert ([i for i, _ in first.callbacks], [i for i, _ in second.callbacks]) == ([0], [0, 1])
    box.finish(second)
    assert box.statistics() == (0, 0, 0)


def test_batches_whose_time_is_over_go_with_the_one_that_they_waited_for() -> None:
    """An attempt for each would keep the last one for many times the time that it was given."""
    box = Accumulator(batch_size=10, linger=0)
    dispatch = Dispatch(
        box, acks=-1, idempotent=True, codec=0, request_timeout=1.0, forget=lambda topic: None
    )
    late, waiting, young = (add(box, now=at)[0] for at in (0.0, 1.0, 5.0))
    assert ready(box, 5.0) == [late]
    error = ConnectionFailed("gone", address="h:1")
    assert dispatch.settle([Outcome(late, error)], 6.0, 2.0) == [late, waiting]
    assert (late.error, waiting.error, young.error) == (error, error, None)
    assert ready(box, 6.0) == [young]
    assert box.statistics() == (1, 10, 1)


def test_where_all_are_late_nothing_is_left_to_send() -> None:
    box = Accumulator(batch_size=10, linger=0)
    dispatch = Dispatch(
        box, acks=-1, idempotent=False, codec=0, request_timeout=1.0, forget=lambda topic: None
    )
    late, waiting = (add(box, now=at)[0] for at in (0.0, 1.0))
    assert ready(box, 1.0) == [late]
    assert dispatch.settle([Outcome(late, ConnectionFailed("gone", address="h:1"))], 9.0, 8.0) == [
        late,
        waiting,
    ]
    assert box.take_ready(9.0, flushing=True) == ([], None)
    assert add(box, now=9.0)[0] is not waiting
