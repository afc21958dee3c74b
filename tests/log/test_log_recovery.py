"""Opening a log after a crash: nothing is trusted after the last good CRC, nothing durable is lost."""

from __future__ import annotations

import pytest
from tests.log.log_building import (
    NOW,
    PAGE_CACHE,
    PATH,
    append,
    batch,
    contents,
    fill,
    marker,
    new_disk,
    open_log,
    small,
    values_of,
)

from barnabas.errors import StorageError
from barnabas.log.log import Log
from barnabas.log.segments.damage import DamagedError
from barnabas.model import Uuid
from barnabas.sim.kernel.disk import Crashed, MemoryDisk


def tables(log: Log) -> dict[str, bytes]:
    """The bytes of every table of the log that is on disk."""
    return {
        name: log.disk.read(f"{log.path}/{name}")
        for name in log.disk.list(log.path)
        if name.endswith(("index", "epoch-checkpoint"))
    }


def test_a_torn_last_batch_is_cut_at_the_last_good_crc() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    values = fill(log, 5)
    whole = log.size
    append(log, batch(b"torn" * 50))
    log.sync()
    file = disk.open(f"{PATH}/{0:020d}.log")
    file.truncate(file.size() - 7)
    again = open_log(disk)
    assert values_of(again) == values
    assert (again.size, again.log_end_offset, again.durable_end_offset) == (whole, 5, 5)
    assert again.recovery.cut_at == 5 and again.recovery.bytes_cut > 0
    assert disk.size(f"{PATH}/{0:020d}.log") == whole


@pytest.mark.parametrize("flip", ["crc", "length", "magic", "offset"])
def test_a_bad_batch_ends_the_log_and_later_segments_go(flip: str) -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 40)
    base = log.bases[2]
    size = len(log.read(base, 1, 99))
    disk.corrupt(
        f"{PATH}/{base:020d}.log", size + {"crc": size - 1, "length": 9, "magic": 16, "offset": 7}[flip]
    )
    disk.crash()
    again = open_log(disk)
    assert again.recovery.cut_at == base + 1
    assert "crc" not in flip or "CRC" in again.recovery.reason
    assert again.bases == log.bases[:3]
    assert values_of(again) == values[: base + 1]
    names = disk.list(PATH)
    assert not [name for name in names if name.endswith((".log", "index")) and int(name[:20]) > base]
    append(again, batch(b"next"))
    again.sync()
    assert values_of(again)[-1] == b"next"


def test_what_lies_behind_a_bad_batch_is_kept_until_the_log_was_closed_cleanly() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=400))
    values = fill(log, 7)
    base, size = log.bases[1], len(log.read(log.bases[1], 1, 99))
    cut_from = {f"{one:020d}.log.damaged": disk.read(f"{PATH}/{one:020d}.log") for one in log.bases[1:]}
    cut_from[f"{base:020d}.log.damaged"] = cut_from[f"{base:020d}.log.damaged"][size:]
    disk.corrupt(f"{PATH}/{base:020d}.log", size + 70)

    def aside() -> dict[str, bytes]:
        return {name: disk.read(f"{PATH}/{name}") for name in disk.list(PATH) if name.endswith(".damaged")}

    again = open_log(disk, small(segment_bytes=400))
    assert values_of(again) == values[: base + 1]
    changed = bytearray(cut_from[f"{base:020d}.log.damaged"])
    changed[70] ^= 0xFF
    assert aside() == {**cut_from, f"{base:020d}.log.damaged": bytes(changed)}
    again.close(NOW)
    open_log(disk, small(segment_bytes=400), clean=True)
    assert not aside()


@pytest.mark.parametrize(
    ("behind", "kept"),
    [
        (b"", False),
        (bytes(300), False),
        (b"\x02" * 300, False),
        (batch(b"next", base_offset=6, epoch=0), True),
        (b"junk" * 9 + batch(b"next", base_offset=9, epoch=0), True),
        (batch(b"earlier", base_offset=3, epoch=0), False),
    ],
    ids=["nothing", "zeros", "twos", "the next batch", "a later batch", "an earlier batch"],
)
def test_records_behind_a_bad_batch_are_told_from_a_torn_end(behind: bytes, kept: bool) -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    fill(log, 6)
    file = disk.open(f"{PATH}/{0:020d}.log")
    disk.corrupt(f"{PATH}/{0:020d}.log", file.size() - 1)
    file.append([behind])
    again = open_log(disk)
    assert again.recovery.cut_at == 5
    assert disk.exists(f"{PATH}/{0:020d}.log.damaged") is kept


def test_a_log_that_ends_below_its_high_watermark_has_lost_records() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    fill(log, 6)
    end = disk.size(f"{PATH}/{0:020d}.log")
    disk.open(f"{PATH}/{0:020d}.log").truncate(end * 5 // 6)
    assert not open_log(disk, high_watermark=5).recovery.lost
    assert open_log(disk, high_watermark=6).recovery.lost
    unsynced = small(flush_messages=PAGE_CACHE)
    assert not open_log(disk, unsynced, high_watermark=6).recovery.lost


def test_a_batch_of_an_earlier_epoch_behind_a_later_one_ends_the_log() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    values = fill(log, 5, epoch=7)
    stale = batch(b"of a leader that was deposed", base_offset=5, epoch=3)
    disk.open(f"{PATH}/{0:020d}.log").append([stale])
    again = open_log(disk)
    assert values_of(again) == values
    assert "epoch 3" in again.recovery.reason


def test_only_the_segments_from_the_recovery_point_on_are_read_again() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 40)
    disk.crash()
    again = open_log(disk, recovery_point=log.bases[3] + 1)
    assert again.recovery.segments == len(log.bases) - 3
    assert again.recovery.batches == 40 - log.bases[3]
    assert open_log(disk, recovery_point=10_000).recovery.segments == 1, "the last segment always"


def test_rot_below_the_recovery_point_is_told() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    fill(log, 10)
    disk.corrupt(f"{PATH}/{0:020d}.log", 500)
    assert open_log(disk, recovery_point=10).recovery.lost


def test_rebuilt_tables_equal_those_that_were_written_while_appending() -> None:
    disk = new_disk()
    log = open_log(disk)
    for i in range(40):
        append(
            log,
            batch(b"x" * 90, timestamp=NOW.wall_ms + (i * 37) % 100, producer=(1, i, 0), transactional=True),
        )
        append(log, marker(i % 3 == 0, 1, i))
    log.close(NOW)
    before = tables(log)
    for name in before:
        disk.remove(f"{PATH}/{name}")
    disk.crash("none")
    again = open_log(disk)
    again.close(NOW)
    assert tables(again) == before
    assert any(name.endswith(".txnindex") for name in before)


@pytest.mark.parametrize("damage", ["missing", "torn", "foreign"])
def test_a_damaged_table_of_a_cleanly_closed_log_is_rebuilt(damage: str) -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 40)
    log.close(NOW)
    indexes = {name: content for name, content in tables(log).items() if name.endswith("index")}
    for name, content in indexes.items():
        disk.remove(f"{PATH}/{name}")
        if damage != "missing":
            disk.put(f"{PATH}/{name}", content[:-3] if damage == "torn" else b"\x7f" * 24)
    again = open_log(disk, clean=True)
    assert values_of(again) == values
    for offset in range(40):
        assert contents(again, offset)[0] == (offset, values[offset])


def test_a_corrupt_index_of_aborted_transactions_is_rebuilt() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    append(log, batch(b"x", producer=(1, 0, 0), transactional=True))
    append(log, marker(False, 1, 0))
    log.close(NOW)
    disk.put(f"{PATH}/{0:020d}.txnindex", b"junk")
    assert open_log(disk, clean=True).aborted_transactions(0, 9) == [(1, 0, 1, 2)]


@pytest.mark.parametrize("stop", ["clean", "kill"])
@pytest.mark.parametrize("fate", ["deleted", "older", "another's"])
def test_aborted_transactions_stay_hidden_when_their_index_is_lost(fate: str, stop: str) -> None:
    """Without its file a segment would look like one in which nothing was aborted."""
    disk = new_disk()
    log = open_log(disk)
    for i in range(40):
        append(log, batch(b"x" * 90, producer=(1, i, 0), transactional=True))
        append(log, marker(i % 3 == 0, 1, i))
    log.high_watermark = log.log_end_offset
    aborted = log.aborted_transactions(0, log.log_end_offset)
    assert len(aborted) == 26 and len(log.segments) > 3
    if stop == "clean":
        log.close(NOW)
    else:
        log.sync()
    names = sorted(name for name in disk.list(PATH) if name.endswith(".txnindex"))
    for name in [names[1], *names[-1:]]:
        content = disk.read(f"{PATH}/{name}")
        disk.remove(f"{PATH}/{name}")
        if fate != "deleted":
            disk.put(f"{PATH}/{name}", content[:34] if fate == "older" else disk.read(f"{PATH}/{names[0]}"))
    disk.crash("none" if stop == "clean" else "kill")
    again = open_log(disk, clean=stop == "clean", recovery_point=log.log_end_offset)
    assert again.remade == [f"{PATH}/{names[1]}"]
    assert [(one[0], *one[1:3]) for one in again.aborted_transactions(0, again.log_end_offset)] == [
        (one[0], *one[1:3]) for one in aborted
    ]


def test_a_clean_stop_is_trusted_and_nothing_is_read_again() -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 40, sync=False)
    log.close(NOW)
    disk.crash()
    again = open_log(disk, clean=True)
    assert again.recovery.clean and again.recovery.batches == 0
    assert (again.durable_end_offset, again.log_end_offset) == (40, 40)
    assert values_of(again) == values


def test_a_clean_marker_that_lies_is_found_out() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    fill(log, 5)
    log.close(NOW)
    file = disk.open(f"{PATH}/{0:020d}.log")
    file.truncate(file.size() - 1)
    again = open_log(disk, clean=True)
    assert not again.recovery.clean and again.log_end_offset == 4


def test_leader_epochs_are_rebuilt_when_their_file_is_gone_or_senseless() -> None:
    for content in (None, b"1\nx\n", b"0\n7\n1 2\n"):
        disk = new_disk()
        log = open_log(disk)
        for epoch in (2, 5, 9):
            fill(log, 12, epoch=epoch)
        log.close(NOW)
        disk.remove(f"{PATH}/leader-epoch-checkpoint")
        if content is not None:
            disk.put(f"{PATH}/leader-epoch-checkpoint", content)
        assert open_log(disk, clean=True).epochs.entries() == [(2, 0), (5, 12), (9, 24)]


def test_leader_epochs_are_cut_to_what_the_log_holds() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 12, epoch=1)
    log.close(NOW)
    disk.put(f"{PATH}/leader-epoch-checkpoint", b"0\n3\n0 0\n1 4\n7 12\n")
    again = open_log(disk, clean=True, log_start=2)
    assert again.epochs.entries() == [(0, 2), (1, 4)]


def test_a_log_that_ends_before_its_start_is_emptied() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 12)
    log.close(NOW)
    again = open_log(disk, clean=True, log_start=50)
    assert (again.log_start_offset, again.log_end_offset, again.bases) == (50, 50, [50])
    fill(again, 1)
    assert contents(again)[0][0] == 50


def test_deleted_files_and_orphans_of_a_crash_are_removed() -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 12)
    log.close(NOW)
    for name in (
        f"{5:020d}.log.deleted",
        f"{77:020d}.index",
        f"{3:020d}.log.cleaned",
        "leader-epoch-checkpoint.tmp",
    ):
        disk.put(f"{PATH}/{name}", b"junk")
    again = open_log(disk, clean=True)
    assert values_of(again) == values
    assert not [name for name in disk.list(PATH) if name.endswith((".deleted", ".cleaned", ".tmp"))]
    assert f"{77:020d}.index" not in disk.list(PATH)


def compacted(log: Log) -> bytes:
    """The first two segments as a compaction leaves them: one batch of each two."""
    data = b"".join(log.read(base, 1 << 20, log.bases[2]).read() for base in log.bases[:2])
    size = len(log.read(0, 1, 99))
    return b"".join(data[at : at + size] for at in range(size, len(data), 2 * size))


def test_a_finished_compaction_is_put_in_place() -> None:
    disk = new_disk()
    log = open_log(disk)
    values = fill(log, 30, start=100)
    bases, data = log.bases, compacted(log)
    log.close(NOW)
    disk.put(f"{PATH}/{0:020d}.log.swap", data)
    disk.put(f"{PATH}/{0:020d}.index.swap", b"")
    disk.put(f"{PATH}/{0:020d}.timeindex.swap", b"")
    again = open_log(disk, small(cleanup_policy=frozenset({"compact"})), clean=True)
    assert again.bases == [0, *bases[2:]]
    assert values_of(again) == values[1 : bases[2] : 2] + values[bases[2] :]


def test_an_unfinished_compaction_is_undone() -> None:
    disk = new_disk()
    log = open_log(disk)
    values, data = fill(log, 30, start=100), compacted(log)
    log.close(NOW)
    disk.put(f"{PATH}/{0:020d}.log.swap", data)
    disk.put(f"{PATH}/{0:020d}.log.cleaned", data[:50])
    assert values_of(open_log(disk, clean=True)) == values


def test_a_hole_between_segments_ends_the_log_unless_it_is_compacted() -> None:
    """Compaction leaves no such hole either: what is behind it is kept, and who reads in it is told."""
    for policy in ("delete", "compact"):
        disk = new_disk()
        log = open_log(disk)
        values = fill(log, 30)
        middle, behind = log.bases[1:3]
        disk.remove(f"{PATH}/{middle:020d}.log")
        disk.crash("none")
        again = open_log(disk, small(cleanup_policy=frozenset({policy})))
        if policy == "delete":
            assert values_of(again) == values[:middle]
        else:
            with pytest.raises(DamagedError):
                again.read(middle, 300, 30)
            assert [value for _, value in contents(again, behind)] == values[behind:]


def test_a_directory_that_is_no_log_is_refused() -> None:
    with pytest.raises(StorageError, match="not <topic>-<partition>"):
        Log.open(new_disk(), "/data/nonsense", small(), clean=True, now=NOW)


def test_opening_in_steps_breathes() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 30))
    for _ in range(5):
        append(log, batch(b"x" * 900_000))
    log.sync()
    steps = Log.open_in_steps(disk, PATH, small(), clean=False, now=NOW)
    pauses = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value.log_end_offset == 5
            break
        pauses += 1
    assert 2 <= pauses <= 10


def run_until_crash(disk: MemoryDisk, acknowledged: list[bytes], sent: list[bytes]) -> None:
    """A life: append, write, sync, roll, cut, retain, close; notes what was acknowledged."""
    log = open_log(disk, small(segment_bytes=500))
    for i in range(14):
        value = b"%d:" % i + b"x" * 70
        sent.append(value)
        append(log, batch(value, producer=(1, 0, i)), epoch=i // 5)
        log.write()
        if i % 3 == 2:
            log.sync()
            acknowledged[:] = sent
    log.truncate_to(12, NOW)
    del sent[12:], acknowledged[12:]
    log.sync()
    acknowledged[:] = sent
    log.close(NOW)


def test_whatever_step_the_power_fails_at_what_was_acknowledged_is_there_once() -> None:
    disk = new_disk()
    run_until_crash(disk, [], [])
    steps = disk.steps
    assert steps > 60
    for step in range(steps):
        for loss in ("all", "some", "none"):
            disk = new_disk(seed=step)
            acknowledged: list[bytes] = []
            sent: list[bytes] = []
            disk.crash_at(step)
            try:
                run_until_crash(disk, acknowledged, sent)
            except Crashed:
                disk.crash(loss)
            else:
                continue
            again = open_log(disk)
            found = values_of(again)
            assert found[: len(acknowledged)] == acknowledged, f"step {step}, loss {loss}"
            assert found == [b"%d:" % i + b"x" * 70 for i in range(len(found))], f"step {step}, loss {loss}"
            assert again.durable_end_offset == again.log_end_offset == len(found)
            state = again.producers.get(1)
            assert (state.next_sequence if state else 0) == len(found)
            assert again.epochs.entries() == [(e, 5 * e) for e in range(3) if 5 * e < len(found)]


def test_a_crash_during_recovery_is_recovered_from() -> None:
    for step in range(40):
        disk = new_disk(seed=step)
        log = open_log(disk)
        values = fill(log, 20)
        fill(log, 5, sync=False, start=20)
        disk.crash("some")
        disk.crash_at(step)
        try:
            open_log(disk)
        except Crashed:
            disk.crash("some")
        disk.crash_at(10**9)
        assert values_of(open_log(disk))[:20] == values


def test_the_topic_id_is_read_from_its_file() -> None:
    disk = new_disk()
    topic_id = Uuid.of(1, 2)
    disk.put(f"{PATH}/partition.metadata", f"version: 0\ntopic_id: {topic_id}".encode())
    assert open_log(disk).topic_id == topic_id
    half = (b"", b"vers", b"version: 0\ntopic_id: AAAA", b"\0" * 45)
    garbled = (
        b"version: 7\n",
        b"n: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg",
        b"\xff\xfe",
        b"version: x\ntopic_id: A",
    )
    for content in (*half, *garbled):
        disk.put(f"{PATH}/partition.metadata", content)
        assert open_log(disk).topic_id is None


def test_a_base_offset_that_the_disk_made_huge_ends_the_log_and_not_the_node() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    values = fill(log, 3)
    end = log.size
    append(log, batch(b"last"))
    log.sync()
    disk.corrupt(f"{PATH}/{0:020d}.log", end + 1)  # a high byte, that no CRC covers
    again = open_log(disk)
    assert values_of(again) == values and again.log_end_offset == 3
    assert "no successor" in again.recovery.reason


@pytest.mark.parametrize("at", [0, 2])
def test_a_base_offset_that_rose_ends_the_log_where_that_batch_belongs(at: int) -> None:
    """The batch behind it lies where that one claims to be, and is right."""
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    sizes = [log.size]
    for _ in range(6):
        append(log, batch(b"one"))
        sizes.append(log.size)
    log.sync()
    disk.corrupt(f"{PATH}/{0:020d}.log", sizes[at] + 7, flip=32)
    again = open_log(disk)
    assert (again.log_end_offset, again.size) == (at, sizes[at])
    assert "no successor" in again.recovery.reason and again.recovery.cut_at == at


def test_an_epoch_that_rose_ends_the_log_where_that_batch_belongs() -> None:
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    sizes = [log.size]
    for _ in range(6):
        append(log, batch(b"one"), epoch=4)
        sizes.append(log.size)
    log.sync()
    disk.corrupt(f"{PATH}/{0:020d}.log", sizes[2] + 15, flip=1)
    again = open_log(disk)
    assert (again.log_end_offset, again.size) == (2, sizes[2])
    assert "comes after epoch 5" in again.recovery.reason


@pytest.mark.parametrize("with_tables", [True, False])
def test_offsets_that_no_segment_can_have_end_the_log_after_a_clean_stop_too(with_tables: bool) -> None:
    """Found by the fuzz target `segments`: the node failed as it rolled, or made its tables anew."""
    disk = new_disk()
    log = open_log(disk, small(segment_bytes=1 << 20))
    values = fill(log, 3)
    end = log.size
    append(log, batch(b"last"))
    log.sync()
    log.close(NOW)
    disk.corrupt(f"{PATH}/{0:020d}.log", end + 2)  # offsets from 2^47 on
    if not with_tables:
        disk.remove(f"{PATH}/{0:020d}.timeindex")
    again = open_log(disk, clean=True)
    assert values_of(again) == values and again.log_end_offset == 3
    append(again, batch(b"next"))
    again.write()
    again.roll(NOW)
    assert values_of(again) == [*values, b"next"]
