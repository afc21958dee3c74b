"""Kafka Connect: from a file that grows to a topic, and from the topic to another file."""

from __future__ import annotations

import contextlib
import http.client
import json
import time
from pathlib import Path
from typing import Any

from tests.compat.conftest import free_port
from tests.suites.apps import numbers
from tests.suites.apps.java import STOPPED, Program
from tests.suites.apps.stage import Outcome, Stage

TOPIC = "connected"
SOURCE, SINK = "source", "sink"
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "offset.flush.interval.ms": "5000",
    "plugin.discovery": "hybrid_warn",
    # Connect switches idempotence off unless it is told otherwise; a resent batch may then be twice in the topic.
    "producer.enable.idempotence": "true",
    "consumer.isolation.level": "read_committed",
}
DISTRIBUTED = {
    "group.id": "workers",
    "exactly.once.source.support": "enabled",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "offset.storage.partitions": "5",
    "config.storage.replication.factor": "-1",
    "offset.storage.replication.factor": "-1",
    "status.storage.replication.factor": "-1",
}


def standalone(stage: Stage) -> Outcome:
    """connect-standalone: its offsets are in a file, and it is not restarted."""
    stage.create(TOPIC, partitions=1)
    worker = properties(
        stage,
        "worker",
        {"offset.storage.file.filename": str(stage.folder / "offsets"), **_common(stage, free_port())},
    )
    connectors = [properties(stage, name, {"name": name, **of}) for name, of in _connectors(stage).items()]
    main = "org.apache.kafka.connect.cli.ConnectStandalone"
    program = Program(stage.folder, "connect", main, str(worker), *map(str, connectors), heap="320m")
    return _through(stage, program, restart=False)


def distributed(stage: Stage) -> Outcome:
    """connect-distributed, its source exactly once; the worker is restarted in the middle."""
    stage.create(TOPIC, partitions=1)
    port = free_port()
    worker = properties(stage, "worker", {**DISTRIBUTED, **_common(stage, port)})
    connectors = _connectors(stage)
    connectors[SOURCE] |= {"exactly.once.support": "required", "transaction.boundary": "poll"}
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    program = Program(stage.folder, "connect", main, str(worker), heap="320m")
    return _through(stage, program, restart=True, rest=(port, connectors))


def _common(stage: Stage, port: int) -> dict[str, str]:
    return {**WORKER, "bootstrap.servers": stage.bootstrap, "listeners": f"http://127.0.0.1:{port}"}


def _connectors(stage: Stage) -> dict[str, dict[str, str]]:
    of_files = "org.apache.kafka.connect.file.FileStream"
    return {
        SOURCE: {
            "connector.class": f"{of_files}SourceConnector",
            "tasks.max": "1",
            "file": str(stage.folder / "numbers.txt"),
            "topic": TOPIC,
        },
        SINK: {
            "connector.class": f"{of_files}SinkConnector",
            "tasks.max": "1",
            "file": str(stage.folder / "sunk.txt"),
            "topics": TOPIC,
        },
    }


def properties(stage: Stage, name: str, settings: dict[str, str]) -> Path:
    """A file of properties in the folder."""
    path = stage.folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    return path


def _through(
    stage: Stage,
    program: Program,
    *,
    restart: bool,
    rest: tuple[int, dict[str, dict[str, str]]] | None = None,
) -> Outcome:
    outcome = Outcome()
    sunk = stage.folder / "sunk.txt"
    sunk.touch()
    try:
        program.start()
        if rest is not None:
            _configure(*rest)
        with numbers.to_file(stage.folder / "numbers.txt", stage.rate) as writing:
            for passed in stage.beats():
                if restart and program.lives == 1 and passed > 0.5:
                    if (code := program.end()) != STOPPED:
                        outcome.seen.append(f"its clean stop ended with {code}")
                    program.start()
                elif not program.runs:
                    outcome.wrong.append(f"it ended with {program.code}: {program.last_words()}")
                    program.start()
            written = writing.stop()
        stage.calm()
        numbers.settled(lambda: numbers.tally(sunk.read_bytes().splitlines(), written))
        outcome.seen += _failed_tasks(rest[0]) if rest is not None else []
        program.end()
    finally:
        program.kill()
    outcome.tallies = {
        "topic": stage.tally(TOPIC, written),
        "file": numbers.tally(sunk.read_bytes().splitlines(), written),
    }
    outcome.seen.append(f"{program.lives} lives of the worker")
    return outcome


def _configure(port: int, connectors: dict[str, dict[str, str]]) -> None:
    """Create the connectors as soon as the worker answers."""
    deadline = time.monotonic() + 120
    for name, config in connectors.items():
        while (answer := _ask(port, "PUT", f"/connectors/{name}/config", config))[0] not in (200, 201):
            if time.monotonic() > deadline:
                raise AssertionError(f"connector {name} was not created: {answer}")
            time.sleep(1.0)


def _failed_tasks(port: int) -> list[str]:
    """A line for each connector and task that has given up."""
    lines = []
    for name in (SOURCE, SINK):
        code, status = _ask(port, "GET", f"/connectors/{name}/status")
        if code == 200:
            states = [status["connector"], *status["tasks"]]
            lines += [f"{name} {one['state']}: {one.get('trace', '')[:300]}" for one in states
                      if one["state"] != "RUNNING"]  # fmt: skip
    return lines


def _ask(port: int, method: str, path: str, body: dict[str, str] | None = None) -> tuple[int, dict[str, Any]]:
    """One request to the worker: (status, JSON); status 0 if nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request(
            method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"}
        )
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read() or b"{}")
    return 0, {}
