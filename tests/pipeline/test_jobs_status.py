"""What jobs say of themselves outlives them, and one can ask them to stop."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError
from barnabas.pipeline.jobs import status
from barnabas.pipeline.jobs.jobs_topic import JobsTopic
from barnabas.pipeline.jobs.progress import Progress
from barnabas.pipeline.jobs.status import JobReport, JobStatus, ask_to_stop, now_ms, read_jobs
from barnabas.testing.cluster import Cluster


def test_a_job_that_runs_can_be_asked_to_stop_and_is_remembered() -> None:
    with Cluster() as node:
        assert read_jobs(node.bootstrap) == []
        with pytest.raises(BarnabasError, match="no job copy runs"):
            ask_to_stop(node.bootstrap, "copy")
        with JobReport(node.bootstrap, "copy", "archive", Progress("archive", plain=True)) as report:
            assert not report.heard(5, 7)
            ask_to_stop(node.bootstrap, "copy")
            report.look_every_s = 0.0
            assert report.heard(6, 6)
        [job] = read_jobs(node.bootstrap)
        assert (job.state, job.rows, job.lag) == ("stopped", 6, 6)
        with pytest.raises(BarnabasError, match="copy does not run: it is stopped"):
            ask_to_stop(node.bootstrap, "copy")

        with (
            pytest.raises(BarnabasError, match="gone"),
            JobReport(node.bootstrap, "copy", "archive", Progress("archive", plain=True)) as again,
        ):
            again.look_every_s = 0.0
            assert not again.heard(0, 9), "the wish to stop went with the run that it was for"
            raise BarnabasError("the disk is gone")
        [job] = read_jobs(node.bootstrap)
        assert (job.state, job.reason) == ("failed", "the disk is gone")


def test_a_job_whose_process_is_gone_has_died_and_one_elsewhere_is_silent_after_half_a_minute() -> None:
    with subprocess.Popen(["true"]) as gone:
        pass
    here, now = socket.gethostname(), 100_000

    def state(process: str, told: int = now) -> str:
        return JobStatus("copy", "archive", "running", 0, 0, 0.0, process, 0, told).state_at(now)

    assert state(f"{here}:{gone.pid}") == "died"
    assert state(f"{here}:{os.getpid()}") == state(f"elsewhere:{gone.pid}") == "running"
    assert state(f"elsewhere:{gone.pid}", now - 30_001) == "silent"


GOOD = JobStatus("copy", "archive", "running", 1, 2, 3.0, "here:1", 4, 5)


@pytest.mark.parametrize(
    "said",
    [
        {"rows": "many"},
        {"told": None},
        {"process": 7},
        {"rate": "fast"},
        {"reason": 5},
        "[" * 100_000,
        "[]",
        '"copy"',
        '{"name": "copy"}',
    ],
    ids=lambda said: str(said)[:20],
)
def test_a_record_that_no_job_wrote_is_no_job(said: str | dict[str, Any]) -> None:
    """Anybody may write to the topic; `pipeline list` shows the others then."""
    with pytest.raises(ValueError, match=r".+"):
        JobStatus.read(said if isinstance(said, str) else json.dumps(asdict(GOOD) | said))


def test_what_a_later_release_says_beside_does_not_hide_a_job() -> None:
    assert JobStatus.read(json.dumps(asdict(GOOD) | {"stage": 3, "rate": 3})) == GOOD


@pytest.mark.parametrize("process", ["99999999999999999999", "-", "x", ""])
def test_a_process_that_cannot_be_has_died(process: str) -> None:
    assert replace(GOOD, process=f"{socket.gethostname()}:{process}").state_at(5) == "died"


class Told:
    """What `JobsTopic` does, in memory."""

    bootstrap = "127.0.0.1:1"

    def __init__(self, values: dict[str, str]) -> None:
        self.values = values

    def make(self) -> None: ...

    def close(self) -> None: ...

    def latest(self) -> dict[str, str]:
        return self.values

    def send(self, key: str, value: str | None) -> None:
        self.values.pop(key, None)
        if value is not None:
            self.values[key] = value


@pytest.mark.parametrize(("host", "refused"), [(socket.gethostname(), True), ("elsewhere", False)])
def test_a_second_job_of_a_name_neither_undoes_the_first_nor_takes_its_stop_away(
    host: str, refused: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = now_ms()
    first = replace(GOOD, process=f"{host}:{os.getppid()}", told=now)
    told = {"copy": json.dumps(asdict(first)), "stop/copy": "{}"}
    monkeypatch.setattr(status, "JobsTopic", lambda *_: Told(told))
    before = dict(told)
    report = JobReport("127.0.0.1:1", "copy", "archive", Progress("archive", plain=True))
    if refused:
        with pytest.raises(BarnabasError, match="copy runs already") as caught, report:
            pass
        assert told == before
        assert "--name" in (caught.value.next_step or "")
    else:
        with report:
            pass
        assert "copy runs already, as elsewhere" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        "archive {here}/nope {new}",
        "archive {gone}/{t} {new}",
        "mirror {here}/nope {here} {new}",
        "mirror {here}/{t} {gone} {new}",
        "audit {here}/{t} {here}/nope",
        "audit {gone}/{t} {new}",
        "flights {here}/nope late {new}",
    ],
)
def test_a_topic_or_an_address_that_is_not_there_is_told_before_spark_takes_its_time_to_start(
    kafka: Cluster,
    topic: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def started(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("barnabas.pipeline.session.session", started)
    with Admin(kafka.bootstrap) as admin:
        admin.create_topic(topic)
    new = tmp_path / "new"
    if "audit" in words:
        new.mkdir()
    words = words.format(here=kafka.bootstrap, gone="127.0.0.1:1", new=new, t=topic)
    code = main(["pipeline", "run", *words.split()])
    said = capsys.readouterr().err
    assert code == (3 if "127.0.0.1:1" in words else 4), said
    assert "cannot connect to 127.0.0.1:1" in said or "there is no topic nope" in said
    assert "--bootstrap-server" not in said, "no job has that flag"


@pytest.mark.parametrize("time", ["10", "soon", "-5 seconds", "10 secnds", "0.5 seconds", "1 month"])
def test_a_time_between_micro_batches_is_read_before_spark_starts(
    time: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "run", "archive", "127.0.0.1:1/t", "/nowhere", f"--follow={time}"]) == 2
    assert "'10 seconds'" in capsys.readouterr().err


def test_what_jobs_say_is_read_on_and_not_from_the_start_each_time() -> None:
    with Cluster() as node, JobsTopic(node.bootstrap) as mine, JobsTopic(node.bootstrap) as other:
        assert mine.latest() == {}
        mine.make()
        mine.make()
        for number in range(5):
            mine.send("copy", str(number))
        assert other.latest() == mine.latest() == {"copy": "4"}
        reader = other._consumer
        mine.send("copy", None)
        mine.send("more", "1")
        assert other.latest() == {"more": "1"}
        assert other._consumer is reader and reader is not None and reader.statistics().messages == 7


def test_a_cluster_that_takes_no_reports_does_not_stop_the_job(capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster({"auto.create.topics.enable": "false"}) as node:
        bootstrap = node.bootstrap
    with JobReport(bootstrap, "copy", "archive", Progress("archive", plain=True), timeout=0.2) as report:
        assert not report.heard(1, 1)
        report.look_every_s = 0.0
        assert not report.heard(2, 0)
    assert capsys.readouterr().err.count("the job goes on, but reports nothing to __barnabas_jobs") == 1


def test_a_job_that_fails_does_not_say_that_it_goes_on_without_reports(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with (
        pytest.raises(BarnabasError, match="nobody there"),
        JobReport("127.0.0.1:1", "copy", "archive", Progress("archive", plain=True), timeout=0.2),
    ):
        raise BarnabasError("nobody there")
    assert capsys.readouterr().err == ""


def test_a_job_that_says_nothing_for_long_is_silent() -> None:
    job = JobStatus("copy", "archive", "running", 1, 2, 3.0, "here:1", 0, 1000)
    assert job.row(20_000)["state"] == "running"
    assert job.row(40_000)["state"] == "silent"
