"""What jobs say of themselves in the compacted topic `__barnabas_jobs`: so that it outlives their driver.

A record's key is the name of a job, its value how far that is, in JSON.  A record whose key is `stop/NAME` asks
that job to stop; the job takes it away when it does.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from dataclasses import asdict, dataclass, replace
from types import TracebackType
from typing import Any, get_type_hints

from barnabas.client.security.options import SecurityOptions
from barnabas.errors import BarnabasError
from barnabas.pipeline.jobs.jobs_topic import TOPIC, JobsTopic
from barnabas.pipeline.jobs.progress import Progress

__all__ = ["JobReport", "JobStatus", "ask_to_stop", "now_ms", "read_jobs"]

_STOP = "stop/"
_TELL_EVERY_S = 2.0
_SILENT_S = 30.0


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How far a job is: rows of this run, offsets left; times in ms since 1970; `reason` where it failed."""

    name: str
    job: str
    state: str
    rows: int
    lag: int
    rate: float
    process: str
    began: int
    told: int
    reason: str | None = None

    @classmethod
    def read(cls, text: str) -> JobStatus:
        """Return what a record says; what a later release says beside is left out.

        Raises ValueError for a record that no job wrote.
        """
        try:
            said = json.loads(text)
            known = {field: said[field] for field in get_type_hints(cls) if field in said}
            found = cls(**known)
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"it is no report of a job: {error}") from error
        for field, wanted in get_type_hints(cls).items():
            value = known.get(field)
            if not isinstance(value, int if wanted is float and type(value) is int else wanted):
                raise ValueError(f"{field} is {value!r}")
        return found

    def state_at(self, now: int) -> str:
        """Return its state: `died` where its process on this machine is gone, `silent` after half a minute.

        Its last report says `running` in both cases: a job that is killed says nothing more.
        """
        if self.state != "running":
            return self.state
        host, _, process = self.process.rpartition(":")
        if host == socket.gethostname() and not _lives(process):
            return "died"
        return "silent" if now - self.told > _SILENT_S * 1000 else "running"

    def row(self, now: int) -> dict[str, Any]:
        """Return what a table shows."""
        return {
            "name": self.name,
            "job": self.job,
            "state": self.state_at(now),
            "rows": self.rows,
            "lag": self.lag,
            "rows_per_s": round(self.rate),
            "told_s_ago": round((now - self.told) / 1000),
            "process": self.process,
            "reason": self.reason,
        }


def _lives(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError, OverflowError):
        return False
    except PermissionError:
        pass  # (it is somebody else's, and alive)
    return True


def now_ms() -> int:
    """The time, in ms since 1970."""
    return int(time.time() * 1000)


class JobReport:
    """`with JobReport(bootstrap, "archive-flights", "archive", progress) as report:` a job with `report.heard`.

    A cluster that does not take its reports does not stop the job: it is said once, when the job does get on.
    Raises BarnabasError where another process of this machine reports under the name: each would undo what the
    other one says, and a stop would reach either.
    """

    def __init__(
        self,
        bootstrap: str,
        name: str,
        job: str,
        progress: Progress,
        *,
        security: SecurityOptions = None,
        timeout: float = 10.0,
    ) -> None:
        self.look_every_s = _TELL_EVERY_S
        self.progress = progress
        self.stopped = False
        began = now_ms()
        process = f"{socket.gethostname()}:{os.getpid()}"
        self.status = JobStatus(name, job, "running", 0, 0, 0.0, process, began, began)
        self._topic = JobsTopic(bootstrap, security, timeout)
        self._told = 0.0
        self._not_taken: BarnabasError | None = None
        self._other: BarnabasError | None = None
        self._said_so = False

    def __enter__(self) -> JobReport:
        self._attempt(self._topic.make)
        self._attempt(self._look_for_another)
        if self._other is not None:
            self._topic.close()
            raise self._other
        self._attempt(self._forget_stop)
        self._tell()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            state = "stopped" if self.stopped else "done"
        else:
            state = "failed" if isinstance(error, Exception) else "interrupted"
        self.status = replace(self.status, state=state, reason=str(error) if error else None)
        self._tell()
        if self.stopped:
            self._attempt(self._forget_stop)
        if error is None:
            self._say_what_was_not_taken()
        self._topic.close()

    def heard(self, rows: int, lag: int) -> bool:
        """Take how far the job is; whether somebody asked it to stop."""
        self.status = replace(self.status, rows=rows, lag=lag, rate=self.progress.rate())
        if time.monotonic() - self._told >= self.look_every_s:
            self._tell()
            self._attempt(self._look)
        self._say_what_was_not_taken()
        return self.stopped

    def _tell(self) -> None:
        self._told = time.monotonic()
        self.status = replace(self.status, told=now_ms())
        self._attempt(lambda: self._topic.send(self.status.name, json.dumps(asdict(self.status))))

    def _look_for_another(self) -> None:
        """See whether a job of this name runs; of one on another machine it cannot be known, and it is said."""
        now, mine = now_ms(), self.status
        one = next((job for job in _jobs_in(self._topic) if job.name == mine.name), None)
        if one is None or one.process == mine.process or one.state_at(now) != "running":
            return
        said = f"the job {one.name} runs already, as {one.process}"
        if one.process.rpartition(":")[0] == socket.gethostname():
            self._other = BarnabasError(
                said,
                next_step=f"`barnabas pipeline stop {one.name} -b {self._topic.bootstrap}` stops it; "
                "or give this one another name: --name NAME",
            )
        else:
            self.progress.say(f"{said}: if that one lives, give one of them another name with --name")

    def _look(self) -> None:
        self.stopped = f"{_STOP}{self.status.name}" in self._topic.latest()

    def _forget_stop(self) -> None:
        self._topic.send(f"{_STOP}{self.status.name}", None)

    def _attempt(self, action: Any) -> None:
        if self._not_taken is not None:
            return
        try:
            action()
        except BarnabasError as error:
            self._not_taken = error

    def _say_what_was_not_taken(self) -> None:
        """Of a job that fails its own error is enough: mostly for the same reason."""
        if self._not_taken is not None and not self._said_so:
            self._said_so = True
            self.progress.say(f"the job goes on, but reports nothing to {TOPIC}: {self._not_taken}")


def read_jobs(bootstrap: str, *, security: SecurityOptions = None, timeout: float = 10.0) -> list[JobStatus]:
    """The jobs that this cluster has heard of, by name; none where there was never one.  Raises BarnabasError."""
    with JobsTopic(bootstrap, security, timeout) as topic:
        return _jobs_in(topic)


def _jobs_in(topic: JobsTopic) -> list[JobStatus]:
    jobs = []
    for key, value in sorted(topic.latest().items()):
        with contextlib.suppress(ValueError):  # it is somebody else's
            if not key.startswith(_STOP) and (job := JobStatus.read(value)).name == key:
                jobs.append(job)
    return jobs


def ask_to_stop(
    bootstrap: str, name: str, *, security: SecurityOptions = None, timeout: float = 10.0
) -> None:
    """Ask a job to stop after its micro-batch.  Raises BarnabasError for one that does not run."""
    with JobsTopic(bootstrap, security, timeout) as topic:
        job = {job.name: job for job in _jobs_in(topic)}.get(name)
        state = "" if job is None else job.state_at(now_ms())
        if state not in ("running", "silent"):
            raise BarnabasError(
                f"the job {name} does not run: it is {state}" if state else f"no job {name} runs",
                next_step=f"`barnabas pipeline list -b {bootstrap}` shows the jobs",
            )
        topic.send(f"{_STOP}{name}", json.dumps({"asked": now_ms()}))
