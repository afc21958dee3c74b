"""A clean stop costs what changed: an idle log is closed without a sync, the others sync together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence

import pytest
from tests.log.log_building import NOW, fill, values_of
from tests.log.test_log_directories import TOPIC, A, B, formatted, opened, opening

from barnabas.errors import StorageError
from barnabas.log.files.sync import Job, SyncJob
from barnabas.log.results import finished
from barnabas.model import TopicPartition
from barnabas.server.loop.sync_threads import run_aside, run_together


class Counting:
    """Runs syncs in turn and remembers of which logs."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, jobs: Sequence[Job]) -> None:
        self.paths += [job.path for job in jobs if isinstance(job, SyncJob)]
        for job in jobs:
            job.run()


def test_a_log_that_nobody_wrote_to_since_a_clean_stop_is_not_synced() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    values = {where: fill(logs.create(where, TOPIC, NOW), 20) for where in (A, B)}
    logs.close(NOW)
    again = opened(disk)
    log = again.get(A)
    assert log is not None
    values[A] += fill(log, 5, start=20)
    run = Counting()
    again.close(NOW, run=run)
    assert run.paths == [f"/d0/{A}"]
    disk.crash()
    last = opened(disk)
    for where in (A, B):
        found = last.get(where)
        assert found is not None and found.recovery.clean and values_of(found) == values[where]
    run = Counting()
    last.close(NOW, run=run)
    assert not run.paths


def test_everything_written_is_durable_before_the_marker() -> None:
    """Whatever order the syncs end in: a crash right after the stop loses nothing."""
    disk = formatted("/d0")
    logs = opened(disk)
    wheres = [TopicPartition("t", index) for index in range(8)]
    values = {where: fill(logs.create(where, TOPIC, NOW), 7) for where in wheres}

    def backwards(jobs: Sequence[Job]) -> None:
        assert len(jobs) == len(wheres)
        for job in reversed(jobs):
            job.run()

    logs.close(NOW, run=backwards)
    disk.crash()
    again = opened(disk)
    assert again.directories[0].was_clean
    for where in wheres:
        found = again.get(where)
        assert found is not None and values_of(found) == values[where]


def test_a_sync_that_fails_at_the_stop_leaves_no_marker() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    for where in (A, B):
        fill(logs.create(where, TOPIC, NOW), 20)
    disk.fail("sync", str(B))
    logs.close(NOW)
    assert logs.failures and logs.directories[0].offline is not None
    disk.heal()
    assert not opened(disk).directories[0].was_clean


def test_a_stop_that_settles_nothing_of_an_unclean_one_before_leaves_no_marker_and_loses_nothing() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    values = fill(logs.create(A, TOPIC, NOW), 20)
    logs.close(NOW, clean=False)
    disk.crash()
    again = opened(disk)
    found = again.get(A)
    assert not again.directories[0].was_clean
    assert found is not None and values_of(found) == values


class Meeting:
    """A sync that ends when all of them have begun: in one thread that would be never."""

    def __init__(self, together: threading.Barrier, error: StorageError | None = None) -> None:
        self._together, self._error = together, error
        self.ended = False

    def run(self) -> None:
        self._together.wait(20)
        self.ended = True
        if self._error is not None:
            raise self._error


def test_syncs_run_together_and_the_first_error_is_raised_when_all_have_ended() -> None:
    barrier = threading.Barrier(4)
    jobs = [Meeting(barrier, StorageError("gone") if place == 1 else None) for place in range(4)]
    with pytest.raises(StorageError, match="gone"):
        run_together(jobs)
    assert all(job.ended for job in jobs)


def test_each_log_is_settled_by_whoever_runs_the_jobs() -> None:
    """Writing the tables of thousands of logs takes long: the loop's thread does not do it one by one."""
    disk = formatted("/d0")
    logs = opened(disk)
    for where in (A, B):
        fill(logs.create(where, TOPIC, NOW), 20)
    tables: list[int] = []

    def run(jobs: Sequence[Job]) -> None:
        for job in jobs:
            before = sum(name.endswith(".snapshot") for where in (A, B) for name in disk.list(f"/d0/{where}"))
            job.run()
            after = sum(name.endswith(".snapshot") for where in (A, B) for name in disk.list(f"/d0/{where}"))
            tables.append(after - before)

    logs.close(NOW, run=run)
    assert tables == [1, 1, 0, 0]


def test_logs_that_were_opened_in_any_order_are_in_order() -> None:
    disk = formatted("/d0")
    logs = opened(disk)
    wheres = [TopicPartition("t", index) for index in range(8)]
    values = {where: fill(logs.create(where, TOPIC, NOW), 7) for where in wheres}
    disk.crash()
    steps = opening(disk)
    openings = next(steps)
    for one in reversed(openings):
        for _ in one.steps():
            pass
    again = finished(steps)
    assert list(again.directories[0].logs) == wheres
    for where in wheres:
        found = again.get(where)
        assert found is not None and values_of(found) == values[where]


def test_a_log_that_cannot_be_opened_takes_its_directory_offline_and_no_other() -> None:
    disk = formatted("/d0", "/d1")
    logs = opened(disk, "/d0", "/d1")
    for where in (A, B):
        fill(logs.create(where, TOPIC, NOW), 7)
    assert {len(one.logs) for one in logs.directories} == {1}
    disk.crash()
    disk.fail("sync", f"/d0/{A}")
    again = opened(disk, "/d0", "/d1")
    assert [one.path for one in again.offline()] == ["/d0"] and again.get(B) is not None


def test_who_is_cancelled_while_logs_are_opened_leaves_no_thread_behind() -> None:
    class Endless:
        """Takes a step as often as it is let."""

        def __init__(self) -> None:
            self.begun = threading.Event()
            self.ended = False

        def steps(self) -> Iterator[None]:
            try:
                while True:
                    self.begun.set()
                    yield
            finally:
                self.ended = True

    async def cancelled(works: list[Endless]) -> None:
        task = asyncio.ensure_future(run_aside(works, 8))
        await asyncio.to_thread(lambda: [work.begun.wait(20) for work in works])
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    works = [Endless(), Endless()]
    asyncio.run(cancelled(works))
    assert all(work.ended for work in works)


def test_an_error_of_ours_in_a_thread_is_not_lost() -> None:
    class Wrong:
        def steps(self) -> Iterator[None]:
            yield
            raise IndexError("ours")

    with pytest.raises(IndexError, match="ours"):
        asyncio.run(run_aside([Wrong()], 8))
