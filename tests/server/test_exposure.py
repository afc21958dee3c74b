"""What a node warns of when it starts, and what it refuses: doors that stand open, and those that never open."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from tests.client.certificates import Authority

from barnabas.cli.start import banner
from barnabas.config import Config
from barnabas.errors import ConfigError
from barnabas.server.net.secure.settings import controllers_security
from barnabas.server.net.tls import identity
from barnabas.server.net.tls.identity import WARN_EVERY_S, Identity
from barnabas.server.node.process import ServerNode
from barnabas.server.node.run import about
from barnabas.settings.table_access import STANDARD_AUTHORIZER

CONTROLLER = "CONTROLLER://127.0.0.1:0"
GAUGE = "barnabas:type=Listener,name=OpenToNetwork,listener=PLAINTEXT"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("settings", "is_open"),
    [
        ({"listeners": f"PLAINTEXT://0.0.0.0:0,{CONTROLLER}"}, True),
        ({"listeners": f"PLAINTEXT://:0,{CONTROLLER}"}, True),
        ({"listeners": f"PLAINTEXT://127.0.0.1:0,{CONTROLLER}"}, False),
        (
            {
                "listeners": f"PLAINTEXT://0.0.0.0:0,{CONTROLLER}",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:ANONYMOUS",
            },
            True,
        ),
    ],
)
def test_a_listener_that_everybody_may_use_is_said_and_counted(
    settings: dict[str, str], is_open: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def whole() -> None:
        async with ServerNode(Config.load(settings | {"log.dirs": str(tmp_path / "data")})) as node:
            assert bool(about(node)["open_listeners"]) is is_open
            assert ("open to all" in "\n".join(banner(node))) is is_open
            assert node.runtime is not None
            metrics = {metric.name: metric for metric in node.runtime.metrics}
            assert metrics[GAUGE].read() == is_open  # type: ignore[union-attr]

    with caplog.at_level(logging.WARNING):
        asyncio.run(whole())
    said = [record for record in caplog.records if getattr(record, "event", "") == "listener.open"]
    assert len(said) == is_open


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sasl.mechanism.controller.protocol": "PLAIN"},
        {"listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN"},
    ],
)
def test_controllers_that_could_never_log_in_at_each_other_are_refused(settings: dict[str, str]) -> None:
    line = f'{PLAIN} required username="node" password="x" user_node="x";'
    common = {
        "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "listener.name.controller.plain.sasl.jaas.config": line,
    }
    with pytest.raises(ConfigError, match="cannot log in at each other's listener CONTROLLER") as error:
        controllers_security(Config.load(common | settings))
    assert "sasl.mechanism.controller.protocol=PLAIN" in (error.value.next_step or "")
    both = {
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512,PLAIN",
    }
    assert controllers_security(Config.load(common | both)).sasl is not None


def test_a_certificate_that_ends_soon_is_said_once_a_day(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [identity.time.time()]
    monkeypatch.setattr(identity.time, "time", lambda: now[0])
    shown = Authority(tmp_path).issue("node")
    with caplog.at_level(logging.WARNING):
        one = Identity(Config.load({"ssl.keystore.location": str(shown)}), "PLAINTEXT")
        for _ in range(3):
            one.look()
        assert len(caplog.records) == 1
        now[0] += WARN_EVERY_S
        one.look()
        one.look()
    assert len(caplog.records) == 2
    monkeypatch.undo()
