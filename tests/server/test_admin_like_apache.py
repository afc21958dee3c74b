"""Administrators and telemetry clients are answered as a real Apache Kafka 4.4.0 answered them, code by code.

Its answers lie in `admin_answers.json`; `admin_cases` says how they were recorded.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.server.admin_cases import SETTINGS, asked_in_turn

from barnabas.client.admin.admin import Admin
from barnabas.client.blocking import BlockingConnection
from barnabas.config import Config
from barnabas.server.node.process import ServerNode

ANSWERS = json.loads((Path(__file__).parent / "admin_answers.json").read_text())


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a node of ours answers to the same requests in the same order."""

    def ask(host: str, port: int) -> dict[str, Any]:
        with Admin(f"{host}:{port}") as admin:  # clients hear of telemetry while there is a subscription
            admin.alter_configs("client-metrics", "any", {"metrics": "*"})
            with BlockingConnection(host, port, client_id="test") as connection:
                admin.alter_configs("client-metrics", "any", reset=["metrics"])
                return asked_in_turn(connection)

    async def main() -> dict[str, Any]:
        config = Config.load(
            {
                "log.dirs": str(tmp_path_factory.mktemp("node") / "data"),
                "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
                "controller.listener.names": "CONTROLLER",
                "offsets.topic.num.partitions": "50",
                **SETTINGS,
            }
        )
        async with ServerNode(config) as node:
            return await asyncio.to_thread(ask, *node.address)

    return asyncio.run(main())


def comparable(value: Any) -> Any:
    """An answer without the order of what has none."""
    if isinstance(value, dict):
        shown = {name: comparable(one) for name, one in value.items()}
        for name in ("config_resources", "configs", "requested_metrics", "groups"):
            if name in shown:
                shown[name].sort(key=str)
        return shown
    return [comparable(one) for one in value] if isinstance(value, list) else value


def test_every_case_was_recorded(ours: dict[str, Any]) -> None:
    assert ours.keys() == ANSWERS.keys()
    assert len(ours) > 200


OURS = {
    "partitions: an empty name": "Apache Kafka fails on it; we name the topic that is invalid",
    "alter 32 'g': unknown operation": "Apache Kafka fails on it; we refuse the request",
    "alter 16 'm': match='client_id=a{2'": "patterns are those of RE2, not of Java",
    "alter 16 'm': match='client_id=\\\\p{Alpha}+'": "patterns are those of RE2, not of Java",
    "alter 16 'm': match='client_id=a++'": "patterns are those of RE2, not of Java",
}
"""Answers that are others on purpose."""


@pytest.mark.parametrize("label", [label for label in ANSWERS if label not in OURS])
def test_the_answer_is_that_of_apache_kafka(label: str, ours: dict[str, Any]) -> None:
    answer = comparable(ANSWERS[label])
    if answer.get("delta_temporality"):
        answer["delta_temporality"] = False  # a lost push takes nothing from a sum that is sent whole
    assert comparable(ours[label]) == answer


@pytest.mark.parametrize("label", OURS)
def test_these_answers_are_others_on_purpose(label: str, ours: dict[str, Any]) -> None:
    assert comparable(ours[label]) != comparable(ANSWERS[label])


def test_what_apache_kafka_fails_on_is_refused_where_it_is_wrong(ours: dict[str, Any]) -> None:
    topics = ours["partitions: an empty name"]["topics"]
    assert [(t["name"], t["error_code"]) for t in topics] == [
        ("", "INVALID_TOPIC_EXCEPTION"),
        ("one", "NONE"),
    ]
    refused = ours["alter 32 'g': unknown operation"]["responses"][0]
    assert refused["error_code"] == "INVALID_REQUEST"
    listed = ours["list []"]["config_resources"]
    assert {found["resource_type"] for found in listed} == {2, 4, 8, 16, 32}
