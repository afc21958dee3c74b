"""Random lives of a log against a plain list: what was acknowledged is there after every crash, once."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.log.log_building import NOW, PATH, append, batch, contents, new_disk, small

from barnabas.log.files.removal import Removal
from barnabas.log.log import Log
from barnabas.log.segments.segment import MAX_OFFSET
from barnabas.model import NO_OFFSET, Offset
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import read_batch_header

Record = tuple[Offset, bytes]


class LogAgainstList(RuleBasedStateMachine):
    """`records` is what the log must hold; what lies below `acknowledged` must survive anything.

    A truncation that no sync followed may be undone by a crash: `earlier` holds what the log was before it.
    With `keeps_start`, there is a directory that writes down where the log starts; else it is opened alone, and
    starts at its first segment.
    """

    disk: MemoryDisk
    log: Log

    @initialize(seed=st.integers(0, 10_000), keeps_start=st.booleans())
    def start(self, seed: int, keeps_start: bool = False) -> None:
        self.disk = new_disk(seed)
        self.keeps_start = keeps_start
        self.known_start = 0
        self.records: list[Record] = []
        self.earlier: list[list[Record]] = []
        self.acknowledged = 0
        self.recovery_point = 0
        self.next_value = 0
        self.sequence = 0
        self.epoch = 0
        self.open(clean=False)

    def open(self, *, clean: bool) -> None:
        self.log = Log.open(
            self.disk,
            PATH,
            small(segment_bytes=600, file_delete_delay_ms=0),
            clean=clean,
            now=NOW,
            recovery_point=self.recovery_point,
            log_start=self.known_start,
            first=self.known_start if self.keeps_start else NO_OFFSET,
        )
        self.log.lower_recovery_point = self.lower
        assert not self.log.damage and not self.log.recovery.lost, self.log.recovery

    def lower(self, point: Offset, start: Offset) -> None:
        self.recovery_point = min(self.recovery_point, point)
        self.known_start = min(self.known_start, start)

    @rule(count=st.integers(1, 4), size=st.integers(0, 200), idempotent=st.booleans())
    def append(self, count: int, size: int, idempotent: bool) -> None:
        values = [b"%d:" % (self.next_value + i) + b"x" * size for i in range(count)]
        self.next_value += count
        producer = (1, 0, self.sequence) if idempotent else None
        data = batch(*values, producer=producer)
        assert self.log.producers.check(read_batch_header(data)) is None
        first, last = append(self.log, data, self.epoch)
        assert first == (self.records[-1][0] + 1 if self.records else self.log.log_start_offset)
        self.sequence += count if idempotent else 0
        self.records += zip(range(first, last + 1), values, strict=True)

    @rule()
    def write(self) -> None:
        self.log.write()

    @rule()
    def sync(self) -> None:
        self.log.write()
        job = self.log.begin_sync()
        if job is not None:
            job.run()
            self.log.finish_sync(job)
            self.acknowledged = self.log.durable_end_offset
            self.earlier.clear()

    @rule(all_of_it=st.booleans())
    def checkpoint(self, all_of_it: bool = True) -> None:
        self.recovery_point = self.log.recovery_point
        if self.keeps_start and all_of_it:  # it is another file: a crash may come in between
            self.known_start = self.log.log_start_offset

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll(NOW)

    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        offset = int(self.log.log_start_offset + part * (self.log.log_end_offset - self.log.log_start_offset))
        before = list(self.records)
        if self.log.truncate_to(offset, NOW):
            self.earlier.append(before)
        self.forget_from(self.log.log_end_offset)

    @precondition(lambda self: self.keeps_start)
    @rule(ahead=st.integers(0, 3))
    def start_over(self, ahead: int) -> None:
        """What its leader has begins later than it ends."""
        self.earlier.append(list(self.records))
        self.log.truncate_fully_and_start_at(self.log.log_end_offset + ahead, NOW)
        self.forget_from(0)

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.log.high_watermark = self.log.log_end_offset
        start = int(self.log.log_start_offset + part * (self.log.log_end_offset - self.log.log_start_offset))
        self.log.increment_log_start(start)
        self.log.retain(NOW)
        known = self.known_start if self.keeps_start else MAX_OFFSET
        Removal(self.disk, PATH, self.log.tick(NOW, known)).run()

    @rule()
    def close(self) -> None:
        self.log.close(NOW)
        self.checkpoint()
        self.acknowledged = self.log.durable_end_offset
        self.disk.crash("all")
        self.open(clean=True)
        assert self.log.log_end_offset == self.acknowledged
        assert self.log.recovery.clean
        self.after_open()

    @rule(loss=st.sampled_from(["all", "some", "none"]))
    def crash(self, loss: str) -> None:
        start, end = self.log.log_start_offset, self.acknowledged
        held = [record for record in self.records if start <= record[0] < end]
        self.disk.crash(loss)  # type: ignore[arg-type]
        self.open(clean=False)
        # Where a log without records begins is kept by its directory, not by the log.
        assert self.log.log_end_offset >= self.acknowledged or not held
        self.after_open()

    def after_open(self) -> None:
        found, start = contents(self.log), self.log.log_start_offset
        for history in (self.records, *self.earlier):
            kept = [record for record in history if record[0] < self.log.log_end_offset]
            if [record for record in kept if record[0] >= start] == found:
                self.records = kept
                break
        else:
            raise AssertionError(f"{found} was never in the log")
        self.earlier.clear()
        self.acknowledged = self.log.durable_end_offset
        assert self.acknowledged == self.log.log_end_offset
        state = self.log.producers.get(1)
        self.sequence = state.next_sequence if state is not None else 0

    def forget_from(self, end: Offset) -> None:
        self.records = [record for record in self.records if record[0] < end]
        self.acknowledged = min(self.acknowledged, end)
        state = self.log.producers.get(1)
        self.sequence = state.next_sequence if state is not None else 0

    @invariant()
    def offsets_keep_their_order(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.durable_end_offset <= log.written_end_offset <= log.log_end_offset
        assert log.recovery_point <= log.durable_end_offset
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset

    @invariant()
    def every_written_record_is_there_once(self) -> None:
        log = self.log
        expected = [r for r in self.records if log.log_start_offset <= r[0] < log.written_end_offset]
        assert contents(log) == expected


TestLogAgainstList = LogAgainstList.TestCase
TestLogAgainstList.settings = settings(
    max_examples=150, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)


# Lives that went wrong once, in order of their discovery.


def life(*, keeps_start: bool = False) -> Iterator[LogAgainstList]:
    """The same steps on disks that lose different things."""
    for seed in (*range(40), 167):
        one = LogAgainstList()
        one.start(seed=seed, keeps_start=keeps_start)
        yield one


def test_what_was_deleted_before_it_was_synced_does_not_count_as_synced() -> None:
    for one in life():
        one.append(count=1, idempotent=False, size=0)
        one.delete_records(part=1.0)
        one.checkpoint()
        one.crash(loss="some")
    for one in life():
        one.append(count=1, idempotent=False, size=0)
        one.roll()
        one.append(count=1, idempotent=False, size=0)
        one.delete_records(part=0.5)
        one.checkpoint()
        one.crash(loss="some")
        one.every_written_record_is_there_once()


def test_a_recovery_point_is_lowered_to_where_the_cut_batch_begins() -> None:
    for one in life():
        one.append(count=2, idempotent=False, size=0)
        one.close()
        one.truncate(part=0.5)
        one.crash(loss="none")


def test_a_cut_that_the_power_cut_undid_is_no_damage_of_the_segment() -> None:
    for one in life():
        for _ in range(2):
            one.append(count=1, idempotent=False, size=0)
        one.close()
        one.truncate(part=0.5)
        one.append(count=3, idempotent=False, size=143)
        one.crash(loss="some")


def test_a_log_that_begins_anew_is_not_durable_before_its_directory_is() -> None:
    for one in life(keeps_start=True):
        one.append(count=1, idempotent=False, size=0)
        one.sync()
        one.checkpoint()
        one.delete_records(part=1.0)
        one.sync()
        one.start_over(ahead=0)
        one.crash(loss="some")
    for one in life(keeps_start=True):
        one.start_over(ahead=1)
        one.sync()
        one.crash(loss="all")
        one.start_over(ahead=0)
        one.checkpoint(all_of_it=False)
        one.crash(loss="some")


def test_a_deleted_segment_in_whose_middle_the_log_began_is_not_missed() -> None:
    for one in life(keeps_start=True):
        one.append(count=2, idempotent=False, size=0)
        one.delete_records(part=0.5)
        one.close()
        one.start_over(ahead=0)
        one.sync()
        one.crash(loss="all")
        one.crash(loss="all")
    for one in life(keeps_start=True):
        one.append(count=2, idempotent=False, size=0)
        one.delete_records(part=0.5)
        one.close()
        one.delete_records(part=1.0)
        one.sync()
        one.crash(loss="all")


def test_a_crash_in_a_start_that_empties_the_log_is_no_loss() -> None:
    for one in life(keeps_start=True):
        for _ in range(2):
            one.append(count=1, idempotent=False, size=0)
            one.roll()
        one.append(count=1, idempotent=False, size=0)
        one.sync()
        one.checkpoint()
        one.append(count=1, idempotent=False, size=0)
        one.delete_records(part=1.0)
        one.known_start = one.log.log_start_offset
        one.crash(loss="some")
        one.crash(loss="some")
        one.crash(loss="some")


def test_records_that_were_deleted_unsynced_are_synced_before_a_log_counts_as_closed() -> None:
    disk = new_disk()
    log = Log.open(disk, PATH, small(), clean=False, now=NOW)
    append(log, batch(b"a"))
    log.write()
    log.high_watermark = 1
    log.increment_log_start(1)
    assert (log.recovery_point, log.durable_end_offset) == (0, 1) and log.needs_sync
    log.close(NOW)
    assert log.recovery_point == 1
    disk.crash("all")
    assert Log.open(disk, PATH, small(), clean=True, now=NOW, recovery_point=1).log_end_offset == 1
