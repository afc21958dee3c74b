"""The real disk, and the one in memory that stands in for it: the same door, the same answers."""

from __future__ import annotations

import errno
import gc
import os
import resource
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests.log.log_building import NOW, append, batch, fill, small, tick, values_of
from tests.patience import PATIENCE_S

from barnabas.errors import StorageError
from barnabas.log.files import disk as disk_module
from barnabas.log.files.disk import OsDisk
from barnabas.log.log import Log
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.ports import Disk
from barnabas.sim.kernel.disk import MemoryDisk


@pytest.fixture(params=["real", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Disk, str]:
    if request.param == "real":
        return OsDisk(), str(tmp_path)
    disk = MemoryDisk()
    disk.make_directories("/here")
    return disk, "/here"


def test_appends_are_gathered_and_read_back_at_positions(place: tuple[Disk, str]) -> None:
    disk, here = place
    file = disk.open(f"{here}/f", create=True)
    assert file.append([b"ab", bytearray(b"cd"), memoryview(b"efg")]) == 7
    assert file.append([]) == 0
    assert file.append([b"h"]) == 1
    assert (file.size(), file.read_at(2, 4), file.read_at(6, 100), file.read_at(50, 1)) == (
        8,
        b"cdef",
        b"gh",
        b"",
    )
    file.truncate(3)
    file.append([b"Z"])
    file.sync()
    file.close()
    assert disk.read(f"{here}/f") == b"abcZ"
    assert disk.open(f"{here}/f", read_only=True).size() == 4


def test_names_are_listed_renamed_and_removed(place: tuple[Disk, str]) -> None:
    disk, here = place
    disk.make_directories(f"{here}/a/b")
    disk.replace(f"{here}/a/two", b"2")
    disk.replace(f"{here}/a/one", b"1")
    disk.replace(f"{here}/a/one", b"11")
    assert disk.list(f"{here}/a") == ["b", "one", "two"]
    disk.rename(f"{here}/a/one", f"{here}/a/three")
    disk.remove(f"{here}/a/two")
    disk.sync_directory(f"{here}/a")
    assert disk.list(f"{here}/a") == ["b", "three"]
    assert disk.exists(f"{here}/a/three") and disk.is_directory(f"{here}/a/b")
    assert disk.size(f"{here}/a/three") == 2
    disk.set_modified_ms(f"{here}/a/three", 1234)
    assert disk.modified_ms(f"{here}/a/three") == 1234
    disk.remove_tree(f"{here}/a")
    assert not disk.exists(f"{here}/a") and disk.free_bytes(here) > 0


def test_every_failure_is_a_storage_error_that_names_the_path(place: tuple[Disk, str]) -> None:
    disk, here = place
    nothing = f"{here}/nothing"
    for attempt in (
        lambda: disk.open(nothing),
        lambda: disk.read(nothing),
        lambda: disk.rename(nothing, f"{here}/x"),
        lambda: disk.remove(nothing),
        lambda: disk.remove_tree(nothing),
        lambda: disk.list(nothing),
        lambda: disk.size(nothing),
        lambda: disk.sync_directory(nothing),
    ):
        with pytest.raises(StorageError, match="nothing"):
            attempt()


def test_a_lock_is_held_by_one(place: tuple[Disk, str]) -> None:
    disk, here = place
    lock = disk.lock(f"{here}/.lock")
    with pytest.raises(StorageError, match="is locked by another node"):
        disk.lock(f"{here}/.lock")
    lock.release()
    disk.lock(f"{here}/.lock").release()


def test_a_closed_file_refuses(place: tuple[Disk, str]) -> None:
    disk, here = place
    file = disk.open(f"{here}/f", create=True)
    file.close()
    file.close()
    for attempt in (lambda: file.append([b"x"]), lambda: file.read_at(0, 1), file.sync):
        with pytest.raises(StorageError, match="closed"):
            attempt()


def test_a_lock_of_another_process_is_named_by_its_id(tmp_path: Path) -> None:
    code = (
        "import sys; from barnabas.log.files.disk import OsDisk; lock = OsDisk().lock(sys.argv[1]);"
        "print(flush=True); sys.stdin.read()"
    )
    path = str(tmp_path / ".lock")
    holder = subprocess.Popen(
        [sys.executable, "-c", code, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None and holder.stdout.readline() == "\n"
        with pytest.raises(StorageError, match=f"locked by process {holder.pid}"):
            OsDisk().lock(path)
    finally:
        holder.communicate()
    OsDisk().lock(path).release()


def test_more_parts_than_the_kernel_takes_are_written_in_order(tmp_path: Path) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    parts = [b"%07d" % i for i in range(5000)]
    assert file.append(parts) == 35_000
    assert file.read_at(0, 35_000) == b"".join(parts)


def test_partial_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    real = os.write
    monkeypatch.setattr(os, "writev", lambda fd, parts: real(fd, b"".join(parts)[:5]))
    monkeypatch.setattr(os, "write", lambda fd, view: real(fd, bytes(view)[:2]))
    assert file.append([b"abc", b"", memoryview(b"defghij"), b"k"]) == 11
    assert (file.size(), file.read_at(0, 99)) == (11, b"abcdefghijk")


def test_a_failed_write_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "f")
    file = OsDisk().open(path, create=True)
    file.append([b"good"])
    real = os.writev

    def full(fd: int, parts: list[bytes]) -> int:
        real(fd, [b"half"])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    with pytest.raises(StorageError, match="No space left") as failed:
        file.append([b"half of this"])
    assert failed.value.next_step is not None and "free space" in failed.value.next_step
    assert file.size() == 4 and Path(path).read_bytes() == b"good"


def test_after_a_failed_sync_the_file_refuses_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"x"])

    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(disk_module, "_fdatasync", broken)
    with pytest.raises(StorageError, match="sync"):
        file.sync()
    monkeypatch.undo()
    for attempt in (
        file.sync,
        lambda: file.append([b"y"]),
        lambda: file.read_at(0, 1),
        lambda: file.truncate(0),
    ):
        with pytest.raises(StorageError, match="cannot sync"):
            attempt()


def test_a_crash_loses_what_was_not_synced_names_included() -> None:
    disk = MemoryDisk()
    disk.make_directories("/d")
    disk.sync_directory("/")
    kept = disk.open("/d/kept", create=True)
    disk.sync_directory("/d")
    kept.append([b"synced"])
    kept.sync()
    kept.append([b" not"])
    lost = disk.open("/d/lost", create=True)
    lost.append([b"x"])
    lost.sync()
    disk.crash()
    assert disk.list("/d") == ["kept"] and disk.read("/d/kept") == b"synced"
    with pytest.raises(StorageError, match="closed"):
        kept.append([b"y"])


def test_a_torn_write_leaves_a_prefix_or_junk_behind_what_was_synced() -> None:
    seen = set()
    for seed in range(60):
        disk = MemoryDisk(seed)
        disk.put("/d/f", b"")
        file = disk.open("/d/f")
        file.append([b"a" * 10])
        file.sync()
        file.append([b"b" * 30])
        disk.crash("some")
        left = disk.read("/d/f")
        assert left[:10] == b"a" * 10 and set(left[10:]) <= set(b"b\0") and len(left) <= 40
        seen.add(len(left))
    assert len(seen) > 10


def test_a_dead_process_loses_nothing_of_the_page_cache() -> None:
    disk = MemoryDisk()
    disk.make_directories("/d")
    disk.open("/d/f", create=True).append([b"x"])
    disk.crash("none")
    assert disk.read("/d/f") == b"x"


def test_a_file_may_be_closed_while_a_thread_syncs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closed at once and by who closes it: no thread ever frees a descriptor that a sendfile is using."""
    file = OsDisk().open(str(tmp_path / "f"), create=True)
    file.append([b"x"])
    fd, entered, go_on = file.fileno(), threading.Event(), threading.Event()
    synced: list[bytes] = []

    def slow(own: int) -> None:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        os.fsync(own)
        synced.append(os.pread(own, 1, 0))

    monkeypatch.setattr(disk_module, "_fdatasync", slow)
    syncing = threading.Thread(target=file.sync)
    syncing.start()
    assert entered.wait(PATIENCE_S)
    file.close()
    other = os.open(tmp_path / "other", os.O_RDWR | os.O_CREAT)
    try:
        assert other <= fd  # it is free again, and the sync that is under way does not touch it
        go_on.set()
        syncing.join()
        assert synced == [b"x"]
        os.fstat(other)
    finally:
        os.close(other)


def test_a_sync_needs_no_descriptor_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsDisk().open(str(tmp_path / "f"), create=True)

    def none_left(fd: int) -> int:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "dup", none_left)
    file.append([b"x"])
    file.sync()
    file.close()


def test_only_a_write_without_room_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sync that had no room may have dropped pages: that is final like any other failed sync."""

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    disk = OsDisk()
    file = disk.open(str(tmp_path / "f"), create=True)
    file.append([b"kept"])
    with monkeypatch.context() as patched:
        patched.setattr(os, "writev", full)
        with pytest.raises(StorageError, match="No space left") as refused:
            file.append([b"lost"])
    assert refused.value.full and file.size() == 4
    file.append([b"more"])
    assert file.read_at(0, 99) == b"keptmore"
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        with pytest.raises(StorageError) as replaced:
            disk.replace(str(tmp_path / "g"), b"x")
    assert replaced.value.full and os.listdir(tmp_path) == ["f"]
    with monkeypatch.context() as patched:
        patched.setattr(disk_module, "_fdatasync", full)
        with pytest.raises(StorageError) as failed:
            file.sync()
    assert not failed.value.full
    with pytest.raises(StorageError):
        file.append([b"never"])


def test_a_log_on_real_files_syncs_in_a_thread_while_it_grows(tmp_path: Path) -> None:
    log = Log.open(OsDisk(), str(tmp_path / "events-0"), small(), clean=True, now=NOW)
    values = fill(log, 30, sync=False)
    for _ in range(5):
        job = log.begin_sync()
        assert job is not None
        syncing = threading.Thread(target=job.run)
        syncing.start()
        values += fill(log, 20, sync=False, start=len(values))
        syncing.join()
        log.finish_sync(job)
        assert log.durable_end_offset == job.end_offset == len(values) - 20
    log.high_watermark = log.log_end_offset
    log.reconfigure(small(retention_bytes=1000, file_delete_delay_ms=0))
    assert log.retain(NOW)
    tick(log, NOW)
    log.close(NOW)
    again = Log.open(OsDisk(), str(tmp_path / "events-0"), small(), clean=True, now=NOW)
    assert values_of(again) == values[again.log_start_offset :] != []
    assert again.recovery.clean


def test_too_many_open_files_are_no_fault_of_the_disk(tmp_path: Path) -> None:
    disk = OsDisk()
    log = Log.open(disk, f"{tmp_path}/t-0", small(), clean=True, now=NOW)
    fill(log, 3)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    append(log, batch(b"sent"))
    spare = os.open(tmp_path, os.O_RDONLY)
    os.close(spare)
    resource.setrlimit(resource.RLIMIT_NOFILE, (spare, hard))  # the next one would be this
    try:
        for refused in (lambda: log.roll(NOW), lambda: disk.sync_directory(str(tmp_path))):
            with pytest.raises(StorageError) as caught:
                refused()
            assert caught.value.full and caught.value.descriptors
            assert "ulimit" in (caught.value.next_step or "")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert log.failed is None
    log.roll(NOW)
    log.sync()
    assert log.durable_end_offset == log.log_end_offset == 4
    log.close(NOW)


def test_only_so_many_files_of_sealed_segments_are_open_and_who_reads_one_reads_on(tmp_path: Path) -> None:
    def opened() -> int:
        gc.collect()  # (a file that an earlier test's error still refers to is nobody's)
        return sum(
            1
            for fd in os.listdir("/proc/self/fd")
            if str(tmp_path) in os.path.realpath(f"/proc/self/fd/{fd}")
        )

    OPEN_FILES.forget_all()  # those of logs that other tests in this process left open
    most, OPEN_FILES.most = OPEN_FILES.most, 3
    try:
        log = Log.open(OsDisk(), f"{tmp_path}/t-0", small(), clean=False, now=NOW)
        values = fill(log, 60)
        bases = list(log.bases)
        assert len(bases) > 8 and opened() <= 4
        slices = [log.read(base, 1 << 20, 60) for base in bases]
        assert opened() == len(bases), "who has a slice may read it to its end"
        for base, piece in zip(bases, slices, strict=True):
            data = piece.read()
            assert int.from_bytes(data[:8], "big") == base
        del piece, slices
        assert opened() <= 4
        assert values_of(log) == values and opened() <= 4
        log.truncate_to(bases[2] + 1, NOW)
        values = values[: bases[2] + 1] + fill(log, 30, start=bases[2] + 1)
        assert values_of(log) == values and opened() <= 4 + len(bases)
        log.close(NOW)
        again = Log.open(OsDisk(), f"{tmp_path}/t-0", small(), clean=False, now=NOW)
        assert values_of(again) == values and opened() <= 4
        again.close(NOW)
        assert opened() == 0
    finally:
        OPEN_FILES.most = most
