"""A clean stop costs what changed: an idle log is closed without a sync, the others sync together."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from tests.log.log_building import NOW, fill, values_of
from tests.log.test_log_directories import TOPIC, A, B, formatted, opened

from barnabas.errors import StorageError
from barnabas.log.sync import SyncJob
from barnabas.model import TopicPartition
from barnabas.server.syncing import run_together


class Counting:
    """Runs syncs in turn and remembers of which logs."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def __call__(self, jobs: Sequence[SyncJob]) -> None:
        self.paths += [job.path for job in jobs]
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

    def backwards(jobs: Sequence[SyncJob]) -> None:
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


class Job:
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
    jobs = [Job(barrier, StorageError("gone") if place == 1 else None) for place in range(4)]
    with pytest.raises(StorageError, match="gone"):
        run_together(jobs)
    assert all(job.ended for job in jobs)
