"""The levels of a node's loggers change while it runs, as those of Apache Kafka 4.3.1 do.

Its answers lie in `logger_answers.json`; `logger_cases` says how they were recorded.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.server.logger_cases import NODE, asked_in_turn

from barnabas.cli.main import main
from barnabas.client.admin.admin import Admin
from barnabas.config import Config
from barnabas.errors import KafkaError
from barnabas.server.node.process import ServerNode
from barnabas.server.observe import events, levels

ANSWERS = json.loads((Path(__file__).parent / "logger_answers.json").read_text())


@pytest.fixture(scope="module", autouse=True)
def levels_as_before() -> Iterator[None]:
    """The loggers are those of this process."""
    before = {name: logging.getLogger(name).level for name in ("barnabas", "barnabas.connection")}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def config(folder: Path) -> Config:
    return Config.load(
        {
            "log.dirs": str(folder / "data"),
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
        }
    )


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a node of ours answers to the same requests in the same order."""

    async def asked() -> dict[str, Any]:
        async with ServerNode(config(tmp_path_factory.mktemp("node"))) as node:
            controller = next(one for one in node.endpoints if one.listener == "CONTROLLER")
            return await asyncio.to_thread(asked_in_turn, node.address, (controller.host, controller.port))

    return asyncio.run(asked())


def comparable(answer: Any) -> Any:
    """An answer without the order of what has none."""
    shown = json.loads(json.dumps(answer))
    for row in shown.get("results", []):
        row["configs"].sort(key=str)
    for name in ("responses", "results", "config_resources"):
        shown.get(name, []).sort(key=str)
    return shown


ONCE = "a controllers' listener of Apache Kafka takes what is there twice; ours refuses it at both listeners"
FAILS = "Apache Kafka fails on it; we refuse the request"
OURS = {
    "alter: operation 4": FAILS,
    "alter: operation -1": FAILS,
    "controller, alter: operation 4": FAILS,
    "controller, alter: operation -1": FAILS,
    "controller, alter: no value": FAILS,
    "controller, alter: the same twice": ONCE,
    "controller, alter: the same logger, two levels": ONCE,
    "controller, describe: what was refused changed nothing": ONCE,
    "controller, describe: a level of its own stays": ONCE,
    "controller, alter: twice the same resource": ONCE,
    "controller, alter: twice the same resource, and a topic": ONCE,
}
"""Answers that are others on purpose."""


@pytest.mark.parametrize("label", [label for label in ANSWERS if label not in OURS])
def test_the_answer_is_that_of_apache_kafka(label: str, ours: dict[str, Any]) -> None:
    assert comparable(ours[label]) == comparable(ANSWERS[label])


@pytest.mark.parametrize("label", OURS)
def test_what_is_other_on_purpose_is_other(label: str, ours: dict[str, Any]) -> None:
    assert comparable(ours[label]) != comparable(ANSWERS[label]), OURS[label]


def test_every_case_was_recorded(ours: dict[str, Any]) -> None:
    assert ours.keys() == ANSWERS.keys()
    assert len(ours) > 150


def test_a_level_decides_what_is_written(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger("barnabas").setLevel(logging.INFO)
    logging.getLogger("barnabas").addHandler(caplog.handler)
    try:
        events.emit(events.CONNECTION_IDLE, client="quiet")
        levels.set_level("connection", "DEBUG")
        events.emit(events.CONNECTION_IDLE, client="loud")
        levels.unset_level("connection")
        events.emit(events.CONNECTION_IDLE, client="quiet again")
    finally:
        logging.getLogger("barnabas").removeHandler(caplog.handler)
    said = {record.fields["client"] for record in caplog.records if record.event == "connection.idle"}  # type: ignore[attr-defined]
    assert said == {"loud"}


def test_each_room_that_writes_events_is_a_logger() -> None:
    assert next(iter(levels.levels())) == levels.ROOT
    assert {"connection", "controller", "log", "node", "quorum"} <= levels.levels().keys()


@pytest.mark.parametrize(("number", "name"), [(1, "TRACE"), (15, "INFO"), (30, "WARN"), (99, "FATAL")])
def test_a_level_that_a_program_gave_goes_by_the_name_of_the_quieter(number: int, name: str) -> None:
    logging.getLogger("barnabas.connection").setLevel(number)
    assert levels.levels()["connection"] == name


def test_an_administrator_changes_them(tmp_path: Path) -> None:
    """The admin client and the command do."""

    def ask(address: str) -> list[str]:
        with Admin(address) as admin:
            admin.alter_configs("broker-logger", NODE, {"connection": "ERROR"})
            assert {one.name: one.value for one in admin.configs("broker-logger", NODE)}[
                "connection"
            ] == "ERROR"
            admin.alter_configs("broker-logger", NODE, reset=["connection"])
            with pytest.raises(KafkaError, match="no level"):
                admin.alter_configs("broker-logger", NODE, {"connection": "LOUD"})
            assert main(["configs", "set", "broker-logger", NODE, "connection=WARN", "-b", address]) == 0
            return [one.name for one in admin.resources("broker-logger")]

    async def with_a_node() -> None:
        async with ServerNode(config(tmp_path)) as node:
            host, port = node.address
            assert await asyncio.to_thread(ask, f"{host}:{port}") == [NODE]
            assert levels.levels()["connection"] == "WARN"

    asyncio.run(with_a_node())
