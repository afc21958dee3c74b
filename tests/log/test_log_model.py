"""Random lives of a log against a plain list: what was acknowledged is there after every crash, once."""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.log.log_building import NOW, PATH, append, batch, contents, new_disk, small, tick

from barnabas.log.log import Log
from barnabas.model import Offset
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import read_batch_header

Record = tuple[Offset, bytes]


class LogAgainstList(RuleBasedStateMachine):
    """`records` is what the log must hold; what lies below `acknowledged` must survive anything.

    A truncation that no sync followed may be undone by a crash: `earlier` holds what the log was before it.
    """

    disk: MemoryDisk
    log: Log

    @initialize(seed=st.integers(0, 10_000))
    def start(self, seed: int) -> None:
        self.disk = new_disk(seed)
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
            small(segment_bytes=600),
            clean=clean,
            now=NOW,
            recovery_point=self.recovery_point,
        )
        self.log.lower_recovery_point = self.lower

    def lower(self, offset: Offset) -> None:
        self.recovery_point = min(self.recovery_point, offset)

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

    @rule()
    def checkpoint(self) -> None:
        self.recovery_point = self.log.durable_end_offset

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

    @rule(part=st.floats(0, 1))
    def delete_records(self, part: float) -> None:
        self.log.high_watermark = self.log.log_end_offset
        start = int(self.log.log_start_offset + part * (self.log.log_end_offset - self.log.log_start_offset))
        self.log.increment_log_start(start)
        self.log.retain(NOW)
        tick(self.log, NOW)
        # The log start is kept by the directory; a log opened alone starts at its first segment.

    @rule()
    def close(self) -> None:
        self.log.close(NOW)
        self.acknowledged = self.log.durable_end_offset
        self.disk.crash("all")
        self.open(clean=True)
        assert self.log.log_end_offset == self.acknowledged
        assert self.log.recovery.clean
        self.after_open()

    @rule(loss=st.sampled_from(["all", "some", "none"]))
    def crash(self, loss: str) -> None:
        held = [record for record in self.records if record[0] >= self.log.log_start_offset]
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
