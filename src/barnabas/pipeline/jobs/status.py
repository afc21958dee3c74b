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
from typing import Any

from barnabas.client.admin.admin import Admin
from barnabas.client.cluster import Cluster
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import list_offsets
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.pipeline.jobs.progress import Progress

__all__ = ["TOPIC", "JobReport", "JobStatus", "ask_to_stop", "read_jobs"]

TOPIC = "__barnabas_jobs"
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

    def row(self, now: int) -> dict[str, Any]:
        """For a table.  A job that runs and has said nothing for half a minute is silent."""
        silent = self.state == "running" and now - self.told > _SILENT_S * 1000
        return {
            "name": self.name,
            "job": self.job,
            "state": "silent" if silent else self.state,
            "rows": self.rows,
            "lag": self.lag,
            "rows_per_s": round(self.rate),
            "told_s_ago": round((now - self.told) / 1000),
            "process": self.process,
            "reason": self.reason,
        }


def now_ms() -> int:
    """The time, in ms since 1970."""
    return int(time.time() * 1000)


class JobReport:
    """`with JobReport(bootstrap, "archive-flights", "archive", progress) as report:` a job with `report.heard`.

    A cluster that does not take its reports does not stop the job: it is said once.
    """

    def __init__(
        self, bootstrap: str, name: str, job: str, progress: Progress, *, timeout: float = 10.0
    ) -> None:
        self.bootstrap = bootstrap
        self.timeout = timeout
        self.look_every_s = _TELL_EVERY_S
        self.progress = progress
        self.stopped = False
        began = now_ms()
        process = f"{socket.gethostname()}:{os.getpid()}"
        self.status = JobStatus(name, job, "running", 0, 0, 0.0, process, began, began)
        self._told = 0.0
        self._mute = False

    def __enter__(self) -> JobReport:
        self._attempt(lambda: _make_topic(self.bootstrap, self.timeout))
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

    def heard(self, rows: int, lag: int) -> bool:
        """Take how far the job is; whether somebody asked it to stop."""
        self.status = replace(self.status, rows=rows, lag=lag, rate=self.progress.rate())
        if time.monotonic() - self._told >= self.look_every_s:
            self._tell()
            self._attempt(self._look)
        return self.stopped

    def _tell(self) -> None:
        self._told = time.monotonic()
        self.status = replace(self.status, told=now_ms())
        self._attempt(lambda: _send(self.bootstrap, self.status.name, json.dumps(asdict(self.status))))

    def _look(self) -> None:
        self.stopped = f"{_STOP}{self.status.name}" in _latest(self.bootstrap)

    def _forget_stop(self) -> None:
        _send(self.bootstrap, f"{_STOP}{self.status.name}", None)

    def _attempt(self, action: Any) -> None:
        if self._mute:
            return
        try:
            action()
        except BarnabasError as error:
            self._mute = True
            self.progress.say(f"the job goes on, but reports nothing to {TOPIC}: {error}")


def read_jobs(bootstrap: str) -> list[JobStatus]:
    """The jobs that this cluster has heard of, by name; none where there was never one.  Raises BarnabasError."""
    jobs = []
    for key, value in sorted(_latest(bootstrap).items()):
        with contextlib.suppress(ValueError, TypeError):  # it is somebody else's
            if not key.startswith(_STOP):
                jobs.append(JobStatus(**json.loads(value)))
    return jobs


def ask_to_stop(bootstrap: str, name: str) -> None:
    """Ask a job to stop after its micro-batch.  Raises BarnabasError for one that does not run."""
    found = {job.name: job for job in read_jobs(bootstrap)}
    job = found.get(name)
    if job is None or job.state != "running":
        raise BarnabasError(
            f"no job {name} runs" if job is None else f"the job {name} does not run: it is {job.state}",
            next_step="`barnabas pipeline list` shows the jobs",
        )
    _send(bootstrap, f"{_STOP}{name}", json.dumps({"asked": now_ms()}))


def _make_topic(bootstrap: str, timeout: float) -> None:
    with Admin(bootstrap, timeout=timeout) as admin:
        try:
            admin.create_topic(TOPIC, partitions=1, configs={"cleanup.policy": "compact"})
        except KafkaError as error:
            if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise


def _send(bootstrap: str, key: str, value: str | None) -> None:
    with Producer(bootstrap, client_id="barnabas-job", delivery_timeout=10.0) as producer:
        producer.send(TOPIC, value, key).result()


def _latest(bootstrap: str) -> dict[str, str]:
    """The newest value of each key.  Empty where the topic is not there."""
    found: dict[str, str] = {}
    with Cluster(bootstrap, client_id="barnabas-job") as cluster:
        try:
            ends = list_offsets(cluster, TOPIC, "latest")
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return found
            raise
    with Consumer(bootstrap, TOPIC, start="earliest", client_id="barnabas-job") as consumer:
        consumer.stop_at({TopicPartition(TOPIC, number): at.offset for number, at in ends.items()})
        for message in consumer:
            key = (message.key or b"").decode(errors="replace")
            if message.value is None:
                found.pop(key, None)
            else:
                found[key] = message.value.decode(errors="replace")
    return found
