"""PySpark's source and sink at an Apache Kafka with TLS and SASL: read, written exactly once, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.secured import SecuredKafka
from tests.patience import LATE_STARTS
from tests.pipeline import java_end

from barnabas import Admin, Consumer, Producer
from barnabas.pipeline.archives.directory import ArchiveDirectory, ArchivedTopic
from barnabas.pipeline.late_workers import LateWorkers

pytest.importorskip("pyspark")

pytestmark = [pytest.mark.compat, pytest.mark.spark]

PASSWORD = "secret-512"
late = LateWorkers(print, LATE_STARTS)


@pytest.fixture(scope="module")
def kafka(apache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    secured = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        yield secured.start()
    finally:
        secured.stop()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from barnabas.pipeline.session import session

    found = session("secured", "local[2]", **{"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("wh"))})
    yield found
    java_end.end(found)


def options(kafka: SecuredKafka, password: str = PASSWORD) -> dict[str, str]:
    security = kafka.login("SCRAM-SHA-512", password)
    return {"kafka.bootstrap.servers": kafka.address("LOGIN")} | {
        f"kafka.{name}": value for name, value in security.items()
    }


def test_a_stream_is_read_and_written_exactly_once_over_sasl_ssl(
    spark: Any, kafka: SecuredKafka, tmp_path: Path
) -> None:
    address, security = kafka.address("LOGIN"), kafka.login("SCRAM-SHA-512")
    with Admin(address, security=security) as admin:
        for topic in ("in", "out"):
            admin.create_topic(topic, partitions=2)
    shown: list[str] = []

    def copy() -> None:
        rows = (
            spark.readStream.format("barnabas")
            .options(**options(kafka), subscribe="in", startingOffsets="earliest", maxOffsetsPerTrigger="300")
            .load()
        )
        query = (
            rows.select("key", "value")
            .writeStream.format("barnabas")
            .options(**options(kafka), topic="out", checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        shown.append(json.dumps(query.lastProgress, default=str))
        shown.append(rows._jdf.queryExecution().toString())

    for numbers in (range(500), range(500, 800)):
        with Producer(address, security=security) as producer:
            for number in numbers:
                producer.send("in", str(number), str(number % 7))
        late.retry(copy)
    with Consumer(
        address, "out", security=security, start="earliest", isolation="read_committed", idle=2.0
    ) as consumer:
        found = Counter(int(message.value or b"") for message in consumer)
    assert found == Counter(range(800))
    written = [path.read_bytes() for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
    assert PASSWORD not in "".join(shown) and not any(PASSWORD.encode() in content for content in written)


def test_a_wrong_password_fails_at_once_and_is_not_shown(
    spark: Any, kafka: SecuredKafka, tmp_path: Path
) -> None:
    wrong = options(kafka, "geheim-0815")

    def read() -> None:
        spark.read.format("barnabas").options(**wrong, subscribe="in").load().count()

    def write() -> None:
        rows = spark.range(3).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format("barnabas").options(**wrong, topic="out").mode("append").save()

    def follow() -> None:
        rows = spark.readStream.format("barnabas").options(**wrong, subscribe="in").load()
        stream = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        stream.trigger(availableNow=True).start().awaitTermination()

    for talk in (read, write, follow):
        with pytest.raises(Exception) as caught:
            late.retry(talk)
        said = f"{caught.value} {caught.value.__cause__}"
        assert "Authentication failed" in said and "geheim-0815" not in said


def written(directory: Path, security: dict[str, str]) -> Path:
    """The options as a file for --command-config."""
    config = directory / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in security.items()))
    return config


def run_pipeline(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "barnabas", "pipeline", *words, "--command-config", str(config)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_a_job_with_a_wrong_password_says_so_in_one_line(kafka: SecuredKafka, tmp_path: Path) -> None:
    address = kafka.address("LOGIN")
    config = written(tmp_path, kafka.login("SCRAM-SHA-512", "geheim-0815"))
    archive = str(tmp_path / "archive")
    jobs = (
        ("archive", f"{address}/in", archive),
        ("audit", f"{address}/in", f"{address}/out"),
        ("mirror", f"{address}/in", address, str(tmp_path / "mirror"), "--source-config", str(config)),
        ("flights", f"{address}/in", "late", str(tmp_path / "late")),
        ("restore", str(an_archive(tmp_path / "kept")), address),
    )
    for words in jobs:
        done = run_pipeline(config, "run", *words)
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        assert done.returncode != 0 and len(errors) == 1 and "Authentication failed" in errors[0], done.stderr
        assert "  next: " in done.stderr and "Traceback" not in done.stderr
        assert "the job goes on" not in done.stderr
        assert "geheim-0815" not in done.stdout + done.stderr


def an_archive(directory: Path) -> Path:
    """One of a topic without records."""
    ArchiveDirectory(str(directory)).claim("somewhere", [ArchivedTopic("kept", "its-id", 1, {})])
    return directory


def test_a_mirror_without_the_settings_of_its_source_is_told_where_they_belong(
    kafka: SecuredKafka, tmp_path: Path
) -> None:
    address = kafka.address("LOGIN")
    config = written(tmp_path, kafka.login("SCRAM-SHA-512"))
    done = run_pipeline(config, "run", "mirror", f"{address}/in", address, str(tmp_path / "mirror"))
    assert done.returncode == 3 and f"error: {address}: the other side" in done.stderr, done.stderr
    assert "--source-config FILE" in done.stderr and len(done.stderr.splitlines()) == 2


def test_jobs_log_in_everywhere_with_command_config(kafka: SecuredKafka, tmp_path: Path) -> None:
    address, security = kafka.address("LOGIN"), kafka.login("SCRAM-SHA-512")
    config = written(tmp_path, security)

    def typed(*words: str) -> str:
        done = run_pipeline(config, *words)
        assert done.returncode == 0, done.stderr
        assert "reports nothing" not in done.stderr
        return done.stdout

    with Admin(address, security=security) as admin, Producer(address, security=security) as producer:
        admin.create_topic("kept", partitions=2)
        for number in range(500):
            producer.send("kept", str(number))
    archive = str(tmp_path / "archive")
    assert "archive-kept: done, 500 rows" in typed("run", "archive", f"{address}/kept", archive)
    typed("run", "restore", archive, address, "--rename", "kept=back")
    table = typed("run", "audit", f"{address}/kept", archive, f"{address}/back")
    assert table.count("equal") == 4
    assert "restore-back" in typed("list", "-b", address)
    assert "done" in typed("status", "archive-kept", "-b", address)
