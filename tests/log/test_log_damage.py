"""Sealed segments that somebody, or the disk, harmed: nothing is skipped silently, the rest is served."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.log.log_building import NOW, append, batch, fill, later, small, tick
from tests.log.test_log_directories import TOPIC, A, formatted, opened

from barnabas.errors import ShortFileError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.disk import OsDisk
from barnabas.log.log import Log
from barnabas.log.reading import damage_of
from barnabas.log.segments.damage import FILE, Damage, DamagedError
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, check_crc, read_records

RECORDS = 60
LENGTH, MAGIC, LAST_OFFSET = 8, 16, 7
Harm = Callable[[MemoryDisk, str, int], None]


def emptied(disk: MemoryDisk, path: str, size: int) -> None:
    disk.put(f"{path}.log", b"")


def deleted(disk: MemoryDisk, path: str, size: int) -> None:
    disk.remove(f"{path}.log")


def all_deleted(disk: MemoryDisk, path: str, size: int) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        if disk.exists(path + suffix):
            disk.remove(path + suffix)


def cut_in_half(disk: MemoryDisk, path: str, size: int) -> None:
    content = disk.read(f"{path}.log")
    disk.put(f"{path}.log", content[: len(content) // 2])


def cut_between_batches(disk: MemoryDisk, path: str, size: int) -> None:
    disk.put(f"{path}.log", disk.read(f"{path}.log")[: 2 * size])


def zeroed(disk: MemoryDisk, path: str, size: int) -> None:
    disk.put(f"{path}.log", bytes(len(disk.read(f"{path}.log"))))


def junk(disk: MemoryDisk, path: str, size: int) -> None:
    disk.put(f"{path}.log", bytes(range(1, 256)) * (len(disk.read(f"{path}.log")) // 255))


def flipped(at: int, flip: int = 0xFF) -> Harm:
    def harm(disk: MemoryDisk, path: str, size: int) -> None:
        disk.corrupt(f"{path}.log", size + at, flip=flip)

    return harm


HARMS: dict[str, Harm] = {
    "emptied": emptied,
    "deleted": deleted,
    "all files deleted": all_deleted,
    "cut in half": cut_in_half,
    "cut between batches": cut_between_batches,
    "zeroed": zeroed,
    "junk": junk,
    "length flipped": flipped(LENGTH + 3),
    "huge length": flipped(LENGTH, 0x40),
    "magic flipped": flipped(MAGIC),
    "value flipped": flipped(75),
    "offset flipped": flipped(LAST_OFFSET),
    "huge offset": flipped(0, 0x40),
}


def made(disk: MemoryDisk, clean: bool) -> tuple[list[int], list[bytes], list[int]]:
    """A log of several segments in /d0, closed or killed: their bases, its values, sizes of their batches."""
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    values = fill(log, RECORDS)
    bases = list(log.bases)
    sizes = [len(log.read(base, 1, RECORDS)) for base in bases]
    logs.checkpoint_recovery_points()
    if clean:
        logs.close(NOW)
    else:
        logs.abandon()
        disk.crash("none")
    assert len(bases) > 4
    return bases, values, sizes


def consume(log: Log, offset: int = 0) -> tuple[list[bytes | None], list[Damage]]:
    """What a consumer reads that begins at the start, tries again where a CRC is wrong, and goes on behind what it
    is told is gone; and what it is told."""
    found: list[bytes | None] = []
    told: list[Damage] = []
    while offset < log.log_end_offset:
        try:
            data = log.read(offset, 300, log.written_end_offset).read()
        except DamagedError as error:
            assert error.code == 2 and error.damage.start <= offset < error.damage.end
            told.append(error.damage)
            offset = error.damage.end
            continue
        assert data, f"nothing at {offset}, and no error"
        for position, header in batches(data):
            if not check_crc(data, position, header):
                break
            assert header.base_offset <= offset, f"offset {offset} is skipped"
            found += [record.value for record in read_records(data, position, header)]
            offset = header.last_offset + 1
    return found, told


def without_memory(disk: MemoryDisk) -> None:
    """What is remembered besides records is gone: all of it has to be read again."""
    for name in disk.list("/d0/a-0"):
        if name.endswith(".snapshot") or name == "leader-epoch-checkpoint":
            disk.remove(f"/d0/a-0/{name}")


@pytest.mark.parametrize("remembered", [True, False], ids=["", "nothing remembered"])
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("harm", HARMS)
def test_no_record_of_a_damaged_segment_is_skipped_silently(
    harm: str, place: int, clean: bool, remembered: bool
) -> None:
    disk = formatted("/d0")
    bases, values, sizes = made(disk, clean)
    HARMS[harm](disk, f"/d0/a-0/{bases[place]:020d}", sizes[place])
    if not remembered:
        without_memory(disk)
    for life in (1, 2):
        logs = opened(disk)
        log = logs.get(A)
        assert log is not None and not log.recovery.segments > 1
        if not remembered and harm in ("zeroed", "junk", "magic flipped"):
            assert log.damage and log.recovery.damaged, "met on the way to what was remembered"
        found, told = consume(log)
        gone = {offset for damage in told for offset in range(damage.start, damage.end)}
        assert gone and min(gone) >= bases[place] and max(gone) < bases[place + 1]
        assert found == [value for offset, value in enumerate(values) if offset not in gone], life
        if harm in ("emptied", "deleted", "all files deleted", "cut in half", "cut between batches"):
            assert log.damage, "known since the start"
        append(log, batch(b"goes on"))
        log.sync()
        values.append(b"goes on")
        disk.crash("none")


def test_a_log_is_cut_where_a_batch_that_the_index_names_is_no_batch() -> None:
    disk = formatted("/d0")
    bases, _, _ = made(disk, clean=True)
    log = opened(disk).get(A)
    assert log is not None
    segment = next(one for one in log.segments if one.base == bases[2])
    named = [
        (at, header.base_offset)
        for at, header in segment.headers()
        if at and segment.index.floor(header.base_offset - segment.base) == at
    ]
    at, offset = named[0]
    disk.corrupt(segment.path(".log"), at + 16)
    log.truncate_to(offset, NOW)
    assert log.log_end_offset == offset


def test_a_log_is_cut_where_the_batch_that_the_index_names_is_gone_and_a_later_one_lies() -> None:
    disk = formatted("/d0")
    bases, _, _ = made(disk, clean=True)
    log = opened(disk).get(A)
    assert log is not None
    segment = next(one for one in log.segments if one.base == bases[2])
    at, gone = next(
        (at, header)
        for at, header in segment.headers()
        if at and segment.index.floor(header.last_offset - segment.base) == at
    )
    segment.close()
    content = disk.peek(segment.path(".log"))
    disk.put(segment.path(".log"), content[:at] + content[at + gone.size :])
    log.truncate_to(gone.base_offset, NOW)
    assert log.log_end_offset == gone.base_offset


def test_what_was_found_is_known_at_the_next_start_and_forgotten_when_the_log_begins_behind_it() -> None:
    disk = formatted("/d0")
    bases, _, sizes = made(disk, clean=True)
    HARMS["magic flipped"](disk, f"/d0/a-0/{bases[2]:020d}", sizes[2])
    log = opened(disk).get(A)
    assert log is not None and not log.damage
    with pytest.raises(DamagedError) as told:
        log.read(bases[2] + 1, 300, RECORDS)
    assert told.value.news == tuple(log.damage)
    with pytest.raises(DamagedError) as told:
        log.read(bases[2] + 1, 300, RECORDS)
    assert told.value.news == ()
    disk.crash("none")
    log = opened(disk).get(A)
    assert log is not None and len(log.damage) == 1
    log.high_watermark = RECORDS
    log.increment_log_start(log.damage[0].end)
    log.close(NOW)
    disk.crash("none")
    log = opened(disk).get(A)
    assert log is not None


def test_a_reader_before_damage_does_not_wait_for_more() -> None:
    disk = formatted("/d0")
    bases, _, sizes = made(disk, clean=True)
    HARMS["magic flipped"](disk, f"/d0/a-0/{bases[2]:020d}", sizes[2])
    log = opened(disk).get(A)
    assert log is not None
    with pytest.raises(DamagedError) as told:
        log.read(bases[2] + 1, 300, RECORDS)
    last = told.value.damage.start - 1
    assert last >= bases[2]
    assert log.read(last, 1 << 20, last + 1).counts_for == sizes[2]
    assert log.read(last, 1 << 20, RECORDS).counts_for > 1 << 30


def test_a_log_that_starts_anew_forgets_what_was_wrong_with_it() -> None:
    disk = formatted("/d0")
    bases, _, _ = made(disk, clean=True)
    disk.put(f"/d0/a-0/{bases[1]:020d}.log", b"")
    log = opened(disk).get(A)
    assert log is not None and log.damage and FILE in disk.list("/d0/a-0")
    log.truncate_fully_and_start_at(0, NOW)
    assert not log.damage and FILE not in disk.list("/d0/a-0")


def test_a_row_of_an_index_that_leads_nowhere_costs_no_record() -> None:
    disk = formatted("/d0")
    bases, values, _ = made(disk, clean=True)
    for base in bases[:-1]:
        disk.corrupt(f"/d0/a-0/{base:020d}.index", 15, flip=0x10)
    log = opened(disk).get(A)
    assert log is not None
    for offset in range(RECORDS):
        found, told = consume(log, offset)
        assert found == values[offset:] and not told


def retained(disk: MemoryDisk, logs: LogDirectories) -> Log:
    """A log whose first segments retention has just taken."""
    log = logs.create(A, TOPIC, NOW)
    fill(log, RECORDS)
    log.high_watermark = RECORDS
    logs.checkpoint_recovery_points()
    log.increment_log_start(log.bases[2])
    assert len(log.retain(NOW)) == 2
    return log


@pytest.mark.parametrize("loss", ["all", "some", "none"])
def test_segments_that_retention_took_are_not_missed_whenever_the_node_dies(loss: str) -> None:
    for removed in (0, 1, 2):
        disk = formatted("/d0")
        logs = opened(disk)
        start = retained(disk, logs).log_start_offset
        if removed:
            tick(logs, later(120_000))
            assert [name for name in disk.list("/d0/a-0") if name.endswith(".log.deleted")]
        if removed == 2:
            logs.checkpoint_recovery_points()
            tick(logs, later(180_000))
            assert not [name for name in disk.list("/d0/a-0") if name.endswith(".deleted")]
        for _ in range(2):
            disk.crash(loss)  # type: ignore[arg-type]
            log = opened(disk).get(A)
            assert log is not None and not log.damage
            assert log.log_start_offset in (0, start)


def test_a_log_that_begins_anew_further_on_is_not_taken_for_damaged() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    log = logs.create(A, TOPIC, NOW)
    fill(log, RECORDS)
    logs.checkpoint_recovery_points()
    log.truncate_fully_and_start_at(500, NOW)
    log.sync()
    tick(logs, later(120_000))
    disk.crash("none")
    log_again = opened(disk).get(A)
    assert log_again is not None and not log_again.damage
    assert (log_again.log_start_offset, log_again.log_end_offset) == (500, 500)


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
def test_an_end_that_is_missing_is_told(clean: bool) -> None:
    disk = formatted("/d0")
    bases, _, _ = made(disk, clean)
    for harm in (emptied, deleted, all_deleted):
        copy = disk.clone()
        harm(copy, f"/d0/a-0/{bases[-1]:020d}", 0)
        log = opened(copy).get(A)
        assert log is not None and log.log_end_offset == bases[-1]
        assert log.recovery.lost and log.recovery.cut_at == bases[-1]
        assert str(RECORDS) in log.recovery.reason


def test_a_sync_finds_that_a_file_was_cut_and_positions_are_counted_again(tmp_path: Path) -> None:
    """On a real disk: what was written since is at the file's end, before where the log looks for it."""
    path = f"{tmp_path}/a-0"
    log = Log.open(OsDisk(), path, small(segment_bytes=1 << 20), clean=True, now=NOW)
    fill(log, 5)
    file = log.active.path(".log")
    size = log.active.end_position
    os.truncate(file, size // 5 * 3)
    append(log, batch(b"new"))
    log.write()
    job = log.begin_sync()
    assert job is not None
    job.run()
    log.finish_sync(job)
    assert isinstance(job.refused, ShortFileError) and log.durable_end_offset == 5
    found = damage_of(log, file)
    assert found is not None and (found.damage.start, found.damage.end) == (3, 5)
    assert not log.is_short and os.path.getsize(file) == log.active.end_position
    append(log, batch(b"next"))
    log.sync()
    data = log.read(5, 1 << 20, 7).read()
    assert [record.value for at, h in batches(data) for record in read_records(data, at, h)] == [
        b"new",
        b"next",
    ]
    log.close(NOW)
