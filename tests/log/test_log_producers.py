"""Idempotence and transactions, as one partition sees them."""

from __future__ import annotations

import pytest
from tests.log.log_building import NOW, append, batch, fill, later, marker, new_disk, open_log, small

from barnabas.errors import CorruptRecordError, ErrorCode, KafkaError
from barnabas.log.log import Log
from barnabas.log.producers.snapshot import SnapshotRow, decode_producers, encode_producers
from barnabas.log.producers.state import Duplicate
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import read_batch_header


def produce(log: Log, data: bytearray, epoch: int = 0) -> object:
    """Check and append, as the leader does."""
    found = log.producers.check(read_batch_header(data))
    return found if found is not None else append(log, data, epoch)


def code(log: Log, data: bytearray, **more: object) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        log.producers.check(read_batch_header(data), **more)  # type: ignore[arg-type]
    return refused.value.code


def test_a_retry_is_answered_with_the_offsets_of_the_original() -> None:
    log = open_log(new_disk())
    for i in range(6):
        assert produce(log, batch(b"a", b"b", producer=(9, 0, 2 * i))) == (2 * i, 2 * i + 1)
    for i in range(1, 6):
        repeated = produce(log, batch(b"a", b"b", producer=(9, 0, 2 * i)))
        assert repeated == Duplicate(2 * i, 2 * i + 1, NOW.wall_ms + 1)
    assert code(log, batch(b"a", b"b", producer=(9, 0, 0))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 12


def test_a_gap_in_the_sequence_is_refused_and_an_unknown_producer_may_begin_anywhere() -> None:
    log = open_log(new_disk())
    assert produce(log, batch(b"a", producer=(9, 0, 500))) == (0, 0)
    assert code(log, batch(b"b", producer=(9, 0, 502))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, batch(b"b", producer=(9, 0, 501))) == (1, 1)


def test_sequence_numbers_wrap_to_zero() -> None:
    log = open_log(new_disk())
    produce(log, batch(b"a", b"b", b"c", producer=(9, 0, 0x7FFFFFFF - 1)))
    assert produce(log, batch(b"a", b"b", b"c", producer=(9, 0, 0x7FFFFFFF - 1))) == Duplicate(
        0, 2, NOW.wall_ms + 2
    )
    assert code(log, batch(b"d", producer=(9, 0, 2))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, batch(b"d", producer=(9, 0, 1))) == (3, 3)


def test_a_higher_epoch_begins_at_zero_and_fences_the_lower() -> None:
    log = open_log(new_disk())
    produce(log, batch(b"a", producer=(9, 3, 0)))
    assert code(log, batch(b"b", producer=(9, 4, 1))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    produce(log, batch(b"b", producer=(9, 4, 0)))
    assert code(log, batch(b"a", producer=(9, 3, 1))) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(log, batch(b"a", producer=(9, 3, 0))) is ErrorCode.INVALID_PRODUCER_EPOCH


def refuse(log: Log, data: bytearray) -> None:
    """The leader cannot take it for now."""
    log.producers.refused(read_batch_header(data), ErrorCode.KAFKA_STORAGE_ERROR)


@pytest.mark.parametrize("known", [True, False])
def test_what_was_sent_behind_a_batch_that_was_refused_for_now_gets_its_answer(known: bool) -> None:
    """Else librdkafka begins a new epoch, and sends again what it has no answer for yet: it is there twice."""
    log = open_log(new_disk())
    if known:
        produce(log, batch(b"a", producer=(9, 0, 0)))
    refuse(log, batch(b"b", producer=(9, 0, 1)))
    for sequence in (2, 3, 4, 5):
        assert code(log, batch(b"c", producer=(9, 0, sequence))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(log, batch(b"b", producer=(9, 0, 1))) == ((1, 1) if known else (0, 0))
    assert code(log, batch(b"d", producer=(9, 0, 3))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, batch(b"c", producer=(9, 0, 2))) == ((2, 2) if known else (1, 1))


def test_the_first_of_several_refused_batches_is_the_one_to_come_again() -> None:
    log = open_log(new_disk())
    for sequence in (3, 1, 2):
        refuse(log, batch(b"a", producer=(9, 0, sequence)))
    assert code(log, batch(b"b", producer=(9, 0, 2))) is ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(log, batch(b"a", producer=(9, 0, 1))) == (0, 0)


def test_refusals_are_forgotten_in_time_and_only_so_many_are_remembered() -> None:
    log = open_log(new_disk())
    for producer in range(3000):
        refuse(log, batch(b"a", producer=(producer, 0, 0)))
    assert len(log.producers._refused) == 1000
    assert code(log, batch(b"b", producer=(2999, 0, 1))) is ErrorCode.KAFKA_STORAGE_ERROR
    log.producers.expire(NOW)
    refuse(log, batch(b"a", producer=(2500, 0, 0)))
    log.producers.expire(NOW)
    assert list(log.producers._refused) == [2500], "it was refused again since the last look"
    log.producers.expire(NOW)
    assert not log.producers._refused


def test_a_producer_that_gave_up_what_was_refused_is_told_of_the_gap() -> None:
    """Not more than can have been on their way get that answer; a new epoch begins anew at once."""
    log = open_log(new_disk())
    produce(log, batch(b"a", producer=(9, 0, 0)))
    refuse(log, batch(b"b", producer=(9, 0, 1)))
    codes = [code(log, batch(b"c", producer=(9, 0, 2))) for _ in range(6)]
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR] * 5 + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER]
    refuse(log, batch(b"b", producer=(9, 0, 1)))
    assert produce(log, batch(b"c", producer=(9, 1, 0))) == (1, 1)


def test_a_transaction_holds_back_the_last_stable_offset_until_its_marker_is_below_the_watermark() -> None:
    log = open_log(new_disk())
    fill(log, 2)
    produce(log, batch(b"a", producer=(9, 0, 0), transactional=True))
    produce(log, batch(b"b", producer=(8, 0, 0), transactional=True))
    assert log.producers.ongoing(9, 0) and not log.producers.ongoing(9, 1)
    log.high_watermark = 4
    assert log.last_stable_offset == 2
    append(log, marker(True, 9, 0))
    assert log.last_stable_offset == 2, "the marker is not below the high watermark"
    log.high_watermark = 5
    assert log.last_stable_offset == 3
    append(log, marker(False, 8, 0))
    log.high_watermark = 6
    assert log.last_stable_offset == 6
    assert log.aborted_transactions(0, 6) == [(8, 3, 5, 6)]


def test_a_truncation_leaves_a_transaction_undecided_whose_marker_is_not_below_the_watermark() -> None:
    log = open_log(new_disk())
    produce(log, batch(b"a", producer=(9, 0, 0), transactional=True))
    append(log, marker(True, 9, 0))
    log.high_watermark = 1
    log.roll(NOW)
    for sequence in range(3):
        produce(log, batch(b"b", producer=(8, 0, sequence)))
    assert log.truncate_to(4, NOW)
    assert log.snapshots.offsets == [2], "the producers were read again from after the marker"
    assert log.last_stable_offset == 0
    log.high_watermark = 2
    assert log.last_stable_offset == 2


def test_a_transaction_is_late_by_our_clock_whatever_time_its_records_have() -> None:
    log = open_log(new_disk())
    produce(log, batch(b"of 2013", producer=(9, 0, 0), transactional=True, timestamp=1_370_000_000_000))
    log.producers.expire(NOW)
    assert not log.producers.has_late_transaction(later(1_200_000), 1200)
    assert log.producers.has_late_transaction(later(1_200_001), 1200)
    append(log, marker(False, 9, 0))
    produce(log, batch(b"next", producer=(9, 0, 1), transactional=True))
    log.producers.expire(later(1_200_001))
    assert not log.producers.has_late_transaction(later(1_800_000), 1200), "that is another one"
    assert log.producers.has_late_transaction(later(2_400_002), 1200)


def test_aborted_transactions_are_found_by_range_across_segments() -> None:
    log = open_log(new_disk())
    spans = []
    for i in range(12):
        start, _ = append(log, batch(b"x" * 150, producer=(i, 0, 0), transactional=True))
        end, _ = append(log, marker(i % 2 == 0, i, 0))
        if i % 2:
            spans.append((i, start, end))
    log.sync()
    assert len(log.segments) > 2
    for low in range(0, 24, 3):
        for high in range(low + 1, 25, 4):
            found = [row[:3] for row in log.aborted_transactions(low, high)]
            assert found == [span for span in spans if span[2] >= low and span[1] < high]


def test_the_last_stable_offset_of_an_abort_row_stops_the_search() -> None:
    log = open_log(new_disk())
    append(log, batch(b"a", producer=(1, 0, 0), transactional=True))
    append(log, batch(b"b", producer=(2, 0, 0), transactional=True))
    append(log, marker(False, 2, 0))
    append(log, marker(False, 1, 0))
    assert log.aborted_transactions(0, 4) == [(2, 1, 2, 0), (1, 0, 3, 4)]


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    log = open_log(new_disk())
    produce(log, batch(b"a", producer=(9, 0, 0), transactional=True))
    assert code(log, batch(b"b", producer=(9, 0, 1))) is ErrorCode.INVALID_TXN_STATE


def test_a_first_transactional_batch_needs_the_current_guard() -> None:
    log = open_log(new_disk())
    data = batch(b"a", producer=(9, 0, 0), transactional=True)
    header = read_batch_header(data)
    assert code(log, data, verify=True) is ErrorCode.INVALID_TXN_STATE
    guard = log.producers.begin_verification(9, 0, 0, supports_bump=False)
    assert log.producers.begin_verification(9, 5, 0, supports_bump=False) is guard
    assert log.producers.check(header, guard=guard, verify=True) is None
    append(log, marker(False, 9, 0))
    assert code(log, data, guard=guard, verify=True) is ErrorCode.INVALID_TXN_STATE, "an abort came between"


def test_a_later_batch_may_not_overtake_the_one_being_verified() -> None:
    log = open_log(new_disk())
    guard = log.producers.begin_verification(9, 3, 0, supports_bump=False)
    late = batch(b"b", producer=(9, 0, 4), transactional=True)
    assert code(log, late, guard=guard, verify=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    bumped = log.producers.begin_verification(8, 3, 0, supports_bump=True)
    data = batch(b"b", producer=(8, 0, 3), transactional=True)
    assert code(log, data, guard=bumped, verify=True) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_markers_obey_the_epochs_of_producer_and_coordinator() -> None:
    log = open_log(new_disk())
    produce(log, batch(b"a", producer=(9, 2, 0), transactional=True))
    states = log.producers

    def refused(epoch: int, coordinator: int, version: int) -> ErrorCode | None:
        try:
            states.check_marker(9, epoch, coordinator, transaction_version=version)
        except KafkaError as error:
            return error.code
        return None

    assert refused(1, 0, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(2, 0, 1) is None
    assert refused(2, 0, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert refused(3, 0, 2) is None
    append(log, marker(True, 9, 3, coordinator_epoch=5))
    assert refused(3, 5, 2) is None, "a marker that is repeated"
    assert refused(4, 4, 2) is ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert code(log, batch(b"b", producer=(9, 3, 1))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, batch(b"b", producer=(9, 3, 0))) == (2, 2)


def test_silent_producers_are_forgotten_unless_a_transaction_is_open() -> None:
    log = open_log(new_disk(), expiration_ms=1000)
    produce(log, batch(b"a", producer=(1, 0, 0)))
    produce(log, batch(b"a", producer=(2, 0, 0), transactional=True))
    produce(log, batch(b"a", producer=(3, 0, 0)))
    log.tick(later(0))
    produce(log, batch(b"b", producer=(3, 0, 1)))
    log.producers.expire(later(999))
    assert len(log.producers) == 3
    log.producers.expire(later(1000))
    assert [state.producer_id for state in log.producers.active()] == [2, 3]


@pytest.mark.parametrize("clean", [True, False])
def test_a_retry_of_records_with_old_timestamps_is_recognized_after_a_restart(clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk)
    year_2013 = 1_357_000_000_000
    produce(log, batch(b"flight", timestamp=year_2013, producer=(1, 0, 0)))
    log.sync()
    log.tick(later(0))
    if clean:
        log.close(NOW)
    disk.crash()
    again = open_log(disk, clean=clean)
    again.tick(later(0))
    again.tick(later(600_000))
    repeated = produce(again, batch(b"flight", timestamp=year_2013, producer=(1, 0, 0)))
    assert repeated == Duplicate(0, 0, year_2013)


def test_a_producer_whose_records_are_gone_is_not_loaded_for_ever() -> None:
    disk = new_disk()
    log = open_log(disk)
    produce(log, batch(b"a", producer=(1, 0, 0)))
    fill(log, 20)
    log.high_watermark = 21
    log.increment_log_start(15)
    log.close(NOW)
    again = Log.open(disk, log.path, small(), clean=True, log_start=15, now=later(86_400_001))
    assert not list(again.producers.active())


@pytest.mark.parametrize("clean", [True, False])
def test_producers_and_open_transactions_survive_a_restart(clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk)
    for i in range(30):
        produce(log, batch(b"x" * 60, producer=(1, 0, i)))
        if i % 3 == 0:
            produce(log, batch(b"y", producer=(2, 0, i // 3), transactional=True))
    append(log, marker(False, 2, 0))
    produce(log, batch(b"z", producer=(3, 1, 0), transactional=True))
    log.sync()
    rows, aborted, end = sorted(log.producers.rows()), log.aborted_transactions(0, 99), log.log_end_offset
    if clean:
        log.close(NOW)
    disk.crash()
    again = open_log(disk, clean=clean)
    assert sorted(again.producers.rows()) == rows
    assert again.aborted_transactions(0, 99) == aborted != []
    again.high_watermark = end
    assert again.last_stable_offset == end - 1
    last = produce(again, batch(b"x" * 60, producer=(1, 0, 29)))
    assert isinstance(last, Duplicate)
    assert produce(again, batch(b"x" * 60, producer=(1, 0, 30))) == (end, end)


@pytest.mark.parametrize("clean", [True, False])
def test_every_batch_that_may_be_in_flight_is_known_again_after_two_restarts(clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk)
    for i in range(8):
        produce(log, batch(b"x", producer=(1, 0, i)))
    for _ in range(2):
        if clean:
            log.close(NOW)
        else:
            log.sync()
        disk.crash()
        log = open_log(disk, clean=clean)
    for i in range(3, 8):
        assert isinstance(produce(log, batch(b"x", producer=(1, 0, i))), Duplicate)
    assert code(log, batch(b"x", producer=(1, 0, 2))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_a_new_epoch_of_a_producer_forgets_the_batches_of_the_old_one_in_a_snapshot_too() -> None:
    disk = new_disk()
    log = open_log(disk)
    for epoch in (0, 0, 1):
        produce(log, batch(b"x", producer=(1, epoch, 0 if epoch else log.log_end_offset)))
    log.close(NOW)
    log = open_log(disk, clean=True)
    state = log.producers.get(1)
    assert state is not None
    assert [(first, offset) for first, _, offset, _, _ in state.batches] == [(0, 2)]


def test_a_truncation_forgets_what_producers_did_beyond_it() -> None:
    log = open_log(new_disk())
    for i in range(20):
        produce(log, batch(b"x" * 60, producer=(1, 0, i)))
    append(log, batch(b"t", producer=(2, 0, 0), transactional=True))
    log.truncate_to(11, NOW)
    assert log.producers.first_unstable_offset == -1
    assert code(log, batch(b"x", producer=(1, 0, 20))) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(log, batch(b"x", producer=(1, 0, 11))) == (11, 11)


def snapshots_of(disk: MemoryDisk, log: Log) -> list[int]:
    return sorted(int(name[:20]) for name in disk.list(log.path) if name.endswith(".snapshot"))


@pytest.mark.parametrize("numbered", [1, 40])
def test_a_truncation_removes_the_producer_snapshots_of_a_longer_log(numbered: int) -> None:
    """Else a log that grew again, with other records, would be opened with producers that it never had."""
    disk = new_disk()
    log = open_log(disk)
    for n in range(40):
        append(log, batch(b"x" * 80, producer=(1, 0, n) if n < numbered else None))
        log.write()
    taken = snapshots_of(disk, log)
    assert len(taken) > 3 and taken == log.snapshots.offsets
    log.truncate_to(taken[2] - 1, NOW)
    assert log.log_end_offset == taken[2] - 1
    assert snapshots_of(disk, log) == log.snapshots.offsets == taken[:2]


def test_a_log_cut_altogether_has_neither_producers_nor_snapshots() -> None:
    disk = new_disk()
    log = open_log(disk)
    for n in range(40):
        produce(log, batch(b"x" * 80, producer=(1, 0, n)))
    assert snapshots_of(disk, log)
    log.truncate_fully_and_start_at(7, NOW)
    assert snapshots_of(disk, log) == log.snapshots.offsets == [] and log.producers.rows() == []
    log.sync()
    assert open_log(disk).producers.rows() == []


def test_a_snapshot_that_a_crash_brought_back_is_not_believed() -> None:
    disk = new_disk()
    log = open_log(disk)
    for n in range(40):
        append(log, batch(b"x" * 80, producer=(1, 0, n)))
        log.write()
    old = f"{log.path}/{log.bases[-1]:020d}.snapshot"
    kept = bytes(disk.read(old))
    log.truncate_to(3, NOW)
    log.reconfigure(small(segment_bytes=1 << 20))
    fill(log, 60)
    file = disk.open(old, create=True)
    file.append([kept])
    file.close()
    disk.crash("kill")
    state = open_log(disk).producers.get(1)
    assert state is not None and (state.last_sequence, state.last_offset) == (2, 2)


def test_a_truncation_of_a_marker_opens_its_transaction_again() -> None:
    log = open_log(new_disk(), small(segment_bytes=1 << 20))
    append(log, batch(b"a", producer=(1, 0, 0), transactional=True))
    append(log, marker(False, 1, 0))
    log.sync()
    log.high_watermark = 2
    assert log.aborted_transactions(0, 9)
    log.truncate_to(1, NOW)
    assert log.aborted_transactions(0, 9) == []
    assert log.producers.first_unstable_offset == 0


def test_a_corrupt_producer_snapshot_falls_back_to_an_older_one_and_the_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    for i in range(40):
        produce(log, batch(b"x" * 60, producer=(1, 0, i)))
    log.close(NOW)
    rows = log.producers.rows()
    disk.corrupt(f"{log.path}/{40:020d}.snapshot", 12)
    again = open_log(disk, clean=True)
    assert again.producers.rows() == rows


def test_a_snapshot_is_kept_per_segment_and_the_newest() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 60)
    log.high_watermark = 60
    log.close(NOW)
    log = open_log(disk, small(retention_bytes=2000), clean=True)
    log.high_watermark = 60
    log.retain(NOW)
    names = [name for name in disk.list(log.path) if name.endswith(".snapshot")]
    assert [int(name[:20]) for name in names] == [*log.bases, 60]


def test_a_snapshot_file_round_trips_and_a_lie_is_found() -> None:
    rows = [SnapshotRow(5, 1, 7, 100, 3, 1234, -1, -1), SnapshotRow(6, 0, -1, -1, 0, 9, 4, 50)]
    raw = encode_producers(rows)
    assert decode_producers(raw) == rows
    for wrong in (raw[:-1], raw[:5], b"\0\2" + raw[2:], raw[:-1] + b"\1"):
        with pytest.raises(CorruptRecordError):
            decode_producers(wrong)
    assert open_log(new_disk()).topic_partition == TopicPartition("events", 0)
