"""Descriptors of logs: what is idle holds none, and no file is closed whose records are not durable."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.log.log_building import NOW, append, batch, fill, small, values_of

from barnabas.config import NO_FLUSH
from barnabas.errors import StorageError
from barnabas.log.directories.jobs import Opening, Settling
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.sync import run_in_turn
from barnabas.log.log import Log
from barnabas.log.segments.open_files import OPEN_FILES

MOST = 16


@pytest.fixture(autouse=True)
def few_files() -> Iterator[None]:
    """Each test has a bound of its own, and nobody else's files."""
    before = OPEN_FILES.most
    OPEN_FILES.forget_all()
    OPEN_FILES.most = MOST
    yield
    OPEN_FILES.most = before
    OPEN_FILES.forget_all()


def opened(path: Path) -> list[str]:
    """The files under the path that this process has open."""
    names = []
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            name = os.readlink(f"/proc/self/fd/{descriptor}")
        except FileNotFoundError:
            continue
        if name.startswith(f"{path}/"):
            names.append(name)
    return names


def make(path: Path, count: int, *, page_cache: bool = False) -> list[Log]:
    config = small(flush_messages=NO_FLUSH) if page_cache else small(segment_bytes=1 << 20)
    return [Log.open(OsDisk(), f"{path}/t-{n}", config, clean=True, now=NOW) for n in range(count)]


def test_logs_that_are_idle_hold_no_descriptor_and_each_can_be_written_and_read(tmp_path: Path) -> None:
    logs = make(tmp_path, 5 * MOST)
    assert len(opened(tmp_path)) <= MOST
    for turn in range(3):
        for log in logs:
            append(log, batch(b"%d" % turn))
            log.sync()
            assert len(opened(tmp_path)) <= MOST
    for log in logs:
        assert values_of(log) == [b"0", b"1", b"2"]
        assert len(opened(tmp_path)) <= MOST + 1
    for log in logs:
        log.close(NOW)
    assert not opened(tmp_path) and not len(OPEN_FILES)


def test_what_was_used_since_the_last_look_stays_open_and_the_others_go(tmp_path: Path) -> None:
    busy, *others = make(tmp_path, 4 * MOST)
    for log in others:
        for one in (busy, log):
            append(one, batch(b"x"))
            one.sync()
        assert any(name.startswith(f"{busy.path}/") for name in opened(tmp_path))


class Syncs:
    """What was synced, by the names of files, and what fails."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.failing = ""

    def __call__(self, descriptor: int) -> None:
        name = os.readlink(f"/proc/self/fd/{descriptor}")
        if self.failing and self.failing in name:
            raise OSError(5, "Input/output error")
        self.names.append(name)


@pytest.fixture
def syncs(monkeypatch: pytest.MonkeyPatch) -> Syncs:
    made = Syncs()
    monkeypatch.setattr("barnabas.log.files.disk._fdatasync", made)
    return made


def test_a_file_with_unsynced_records_is_synced_before_it_is_closed(tmp_path: Path, syncs: Syncs) -> None:
    logs = make(tmp_path, 4 * MOST, page_cache=True)
    for log in logs:
        append(log, batch(b"x"))
        log.write()
        held = opened(tmp_path)
        assert len(held) <= MOST + MOST // 2 + 1
        for other in logs[: logs.index(log) + 1]:
            path = other.active.path(".log")
            assert path in held or path in syncs.names
    assert all(log.durable_end_offset == 0 for log in logs), "only its own sync says that a log is durable"
    for log in logs:
        append(log, batch(b"y"))
        log.sync()
        assert log.durable_end_offset == 2


def test_where_threads_sync_what_is_named_no_file_is_synced_while_another_one_opens(
    tmp_path: Path, syncs: Syncs
) -> None:
    logs = {log.path: log for log in make(tmp_path, 8 * MOST, page_cache=True)}
    named: list[str] = []
    for log in logs.values():
        before = len(syncs.names)
        append(log, batch(b"x"))
        log.write()
        assert len(syncs.names) == before
        assert len(opened(tmp_path)) <= MOST + MOST // 2
        for path in OPEN_FILES.take_unsynced():  # as a broker does, whose threads are quick
            named.append(path)
            logs[path].sync()
    assert len(named) >= len(logs) - MOST - MOST // 2
    assert len(set(named)) == len(named), "a log that is durable is not named again"
    assert log.path not in named and not OPEN_FILES.unsynced


def test_a_file_whose_sync_failed_stays_open_and_its_log_fails_with_its_own_sync(
    tmp_path: Path, syncs: Syncs
) -> None:
    first, *others = make(tmp_path, 4 * MOST, page_cache=True)
    append(first, batch(b"x"))
    first.write()
    syncs.failing = first.path
    for log in others:
        append(log, batch(b"x"))
        log.write()
    assert first.active.path(".log") in opened(tmp_path)
    syncs.failing = ""
    with pytest.raises(StorageError, match="Input/output"):
        first.sync()
    assert first.failed is not None and first.durable_end_offset == 0
    assert all(log.failed is None for log in others)


def test_deleted_records_that_were_never_synced_keep_their_file_open(tmp_path: Path, syncs: Syncs) -> None:
    """DeleteRecords moves the durable end past them; that says nothing of the file."""
    log, *others = make(tmp_path, 2 * MOST, page_cache=True)
    fill(log, 1)
    fill(log, 3, sync=False)
    syncs.names.clear()
    log.high_watermark = 4
    assert log.increment_log_start(4) and log.durable_end_offset == 4
    for other in others:
        append(other, batch(b"x"))
        other.write()
    path = log.active.path(".log")
    assert path in opened(tmp_path) or path in syncs.names


def test_a_log_that_was_cut_keeps_its_file_until_the_cut_is_durable(tmp_path: Path) -> None:
    log, *others = make(tmp_path, 3 * MOST)
    fill(log, 10)
    log.truncate_to(4, NOW)
    assert not log.active.drop_file()
    assert log.active.path(".log") in opened(tmp_path)
    log.sync()
    for other in others:
        append(other, batch(b"x"))
        other.sync()
    assert log.active.path(".log") not in opened(tmp_path)
    assert len(values_of(log)) == 4
    append(log, batch(b"again"))
    log.sync()
    assert values_of(log)[4:] == [b"again"]


def test_a_file_that_somebody_changed_while_it_was_closed_is_not_appended_to(tmp_path: Path) -> None:
    (log,) = make(tmp_path, 1)
    fill(log, 3)
    log.active.rest()
    with open(log.active.path(".log"), "ab") as file:
        file.write(b"what is this?")
    append(log, batch(b"x"))
    with pytest.raises(StorageError, match="somebody else"):
        log.write()
    assert log.failed is not None


def test_recovered_records_keep_their_file_open_until_they_are_synced(tmp_path: Path, syncs: Syncs) -> None:
    (log,) = make(tmp_path, 1, page_cache=True)
    fill(log, 3, sync=False)
    log.active.file.close()
    asked: list[bool] = []
    steps = Log.open_in_steps(OsDisk(), log.path, log.config, clean=False, now=NOW)
    sync = Log.sync

    def watched(one: Log) -> None:
        asked.append(one.active.drop_file())
        sync(one)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Log, "sync", watched)
        opening = Opening("t-0", steps, clean=False)
        for _ in opening.steps():
            pass
    assert opening.log is not None and asked == [False]
    assert any(name.endswith(".log") for name in syncs.names)
    assert not opened(tmp_path), "whoever opens logs in a thread leaves none of their files open"
    assert len(values_of(opening.log)) == 3


def test_the_file_of_an_empty_log_is_synced_with_its_directory_though_it_is_closed(
    tmp_path: Path, syncs: Syncs
) -> None:
    (log,) = make(tmp_path, 1)
    log.active.rest()
    assert not opened(tmp_path)
    log.sync()
    assert log.active.path(".log") in syncs.names


def test_a_stop_opens_no_file_of_a_log_that_is_durable(tmp_path: Path) -> None:
    logs = make(tmp_path, 3 * MOST)
    for log in logs:
        append(log, batch(b"x"))
        log.sync()
    fresh = make(tmp_path / "fresh", 2 * MOST)
    for log in (*logs, *fresh):
        log.active.rest()
    settled = [Settling(log) for log in (*logs, *fresh)]
    run_in_turn(settled)
    assert not opened(tmp_path)
    run_in_turn([one.job for one in settled if one.job is not None])


def test_the_last_descriptors_are_left_and_where_none_is_a_log_still_gets_one(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    logs = make(tmp_path, 2 * MOST)
    for log in logs:
        fill(log, 2)
        log.active.rest()
    used = max(int(number) for number in os.listdir("/proc/self/fd"))
    limit = used + 120
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    taken: list[int] = []
    try:
        OPEN_FILES.allow(limit)
        while True:  # sockets, say: as many as there are
            try:
                taken.append(os.open(tmp_path, os.O_RDONLY))
            except OSError:
                break
        for log in logs:
            append(log, batch(b"x"))
            log.sync()
            assert log.failed is None
            assert OPEN_FILES.short
        os.close(taken.pop())
        for log in logs:
            assert values_of(log)[-1] == b"x"
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for one in taken:
            os.close(one)
        OPEN_FILES.allow(soft)
    append(logs[0], batch(b"y"))
    logs[0].sync()
    assert not OPEN_FILES.short or soft <= used + 64
