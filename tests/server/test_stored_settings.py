"""What the metadata say of a broker's settings: what it cannot have is named, and the rest holds."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.config import Config
from barnabas.server.node.broker_part import BrokerPart


def test_a_start_names_each_stored_setting_that_it_cannot_have_once_and_takes_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    own = {"listeners": "PLAINTEXT://127.0.0.1:1"}
    everybody = {"log.retention.ms": "5", "log.cleaner.threads": "none"}
    image = SimpleNamespace(cluster_config=lambda: everybody, broker_config=lambda _: own)
    taken: list[Config] = []
    part: Any = object.__new__(BrokerPart)
    config = Config.load({"log.dirs": "/d"})
    part._quorum, part._given, part._refused = SimpleNamespace(image=image), config, {}
    part._runtime = SimpleNamespace(node_id=7, config=config)
    part._cordoned = lambda: None
    part.broker = SimpleNamespace(reconfigure=taken.append)
    part._reconfigured = lambda _: None
    with caplog.at_level(logging.ERROR, "barnabas"):
        part._reconfigure()
        part._reconfigure()
    told = [
        record.fields for record in caplog.records if getattr(record, "event", "") == "node.setting-refused"
    ]
    assert {fields["setting"]: fields["next"] for fields in told} == {
        "listeners": "barnabas configs reset broker 7 listeners",
        "log.cleaner.threads": "barnabas configs reset broker '' log.cleaner.threads",
    }
    assert len(told) == 2, "each is told of once"
    assert taken[-1].int("log.retention.ms") == 5
