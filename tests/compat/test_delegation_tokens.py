"""Delegation tokens: Apache Kafka's tool makes, shows, renews and ends them; a running Kafka answers the same."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import kafka_class, run_kafka_class
from tests.compat.secured import SecuredKafka
from tests.server.delegation import SCRAM, TokenNode, by_token

from barnabas.client.blocking import BlockingConnection
from barnabas.client.security.options import Security
from barnabas.wire.schemas.sasl import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    ExpireDelegationTokenRequest,
    RenewDelegationTokenRequest,
)

pytestmark = pytest.mark.compat

SECRET = "a-secret-of-all-nodes"
RECORDS = 1000
TOOL = "org.apache.kafka.tools.DelegationTokenCommand"


@pytest.fixture(scope="module")
def node() -> Iterator[TokenNode]:
    running = TokenNode(SECRET)
    with running.cluster:
        running.add_users()
        yield running


def properties(file: Path, user: str, password: str, more: str = "") -> str:
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={SCRAM} required username="{user}" password="{password}"{more};\n'
    )
    return str(file)


def test_apache_kafkas_tool_makes_shows_renews_and_ends_a_token(
    apache: Path, node: TokenNode, tmp_path: Path
) -> None:
    config = properties(tmp_path / "ada.properties", "ada", "ada-secret")
    at = ("--bootstrap-server", node.login, "--command-config", config)
    made = kafka_class(
        TOOL, *at, "--create", "--max-life-time-period", "-1", "--renewer-principal", "User:tom"
    )
    assert "Created delegation token with tokenId" in made
    shown = kafka_class(TOOL, *at, "--describe", "--owner-principal", "User:ada")
    token_id, mac, owner, renewers = shown.splitlines()[-1].split()[:4]
    assert token_id in made and owner == "User:ada" and "User:tom" in shown, renewers
    assert "Completed renew" in kafka_class(
        TOOL, *at, "--renew", "--renew-time-period", "1000000", "--hmac", mac
    )

    bearer = properties(tmp_path / "token.properties", token_id, mac, ' tokenauth="true"')
    lines = "".join(f"line {number}\n" for number in range(RECORDS))
    to = ("--bootstrap-server", node.login, "--topic", "java", "--command-config", bearer)
    kafka_class("org.apache.kafka.tools.ConsoleProducer", *to, stdin=lines)
    read = ("--from-beginning", "--max-messages", str(RECORDS), "--timeout-ms", "30000")
    out = kafka_class("org.apache.kafka.tools.consumer.ConsoleConsumer", *to, *read)
    assert out.splitlines() == lines.splitlines()
    code, said = run_kafka_class(
        TOOL, "--bootstrap-server", node.login, "--command-config", bearer, "--create",
        "--max-life-time-period", "-1",
    )  # fmt: skip
    assert code != 0 and "DelegationTokenDisabled" not in said and "not allowed" in said.lower(), said

    assert "Completed expire" in kafka_class(
        TOOL, *at, "--expire", "--expiry-time-period", "-1", "--hmac", mac
    )
    assert token_id not in kafka_class(TOOL, *at, "--describe")
    code, said = run_kafka_class("org.apache.kafka.tools.TopicCommand", *to[:2], *to[4:], "--list")
    assert code != 0 and "SaslAuthenticationException" in said


class TokenKafka(SecuredKafka):
    """Apache Kafka with the secret, and without."""

    secret = SECRET

    def _settings(self) -> dict[str, str]:
        own = {"delegation.token.secret.key": self.secret} if self.secret else {}
        return super()._settings() | own


@pytest.mark.parametrize("secret", [SECRET, ""])
def test_answers_are_those_of_an_apache_kafka(apache: Path, tmp_path: Path, secret: str) -> None:
    kafka = TokenKafka.__new__(TokenKafka)
    kafka.secret = secret
    kafka.__init__(tmp_path)  # type: ignore[misc]
    ours = TokenNode(secret)
    try:
        kafka.start()
        with ours.cluster:
            ours.add_users("secret-512")
            login = Security.parse(kafka.login("SCRAM-SHA-512", listener="SHORT"))
            with (
                ours.connect(password="secret-512") as mine,
                BlockingConnection("127.0.0.1", kafka.ports["SHORT"], security=login) as theirs,
                ours.plain() as open_mine,
                BlockingConnection("127.0.0.1", kafka.ports["PLAIN"]) as open_theirs,
            ):
                compare(mine, theirs, bool(secret))
                compare(open_mine, open_theirs, False)
                if secret:
                    compare_bearers(ours, kafka, mine, theirs)
    finally:
        kafka.stop()


def asked() -> Iterator[tuple[Any, int]]:
    """Requests that name no token, in each version that can say them."""
    tom = CreatableRenewers(principal_type="User", principal_name="tom")
    group = CreatableRenewers(principal_type="Group", principal_name="tom")
    for version in (1, 2, 3):
        yield CreateDelegationTokenRequest(max_lifetime_ms=-1), version
        yield CreateDelegationTokenRequest(max_lifetime_ms=0, renewers=[tom]), version
        yield CreateDelegationTokenRequest(max_lifetime_ms=60_000, renewers=[tom, tom]), version
        yield CreateDelegationTokenRequest(max_lifetime_ms=2**62, renewers=[group]), version
        yield DescribeDelegationTokenRequest(owners=[]), version
        nobody = DescribeDelegationTokenOwner(principal_type="User", principal_name="nobody")
        yield DescribeDelegationTokenRequest(owners=[nobody]), version
    other = {"owner_principal_type": "User", "owner_principal_name": "tom"}
    yield CreateDelegationTokenRequest(max_lifetime_ms=-1, **other), 3
    yield (
        CreateDelegationTokenRequest(
            max_lifetime_ms=-1, owner_principal_name=None, owner_principal_type=None
        ),
        3,
    )
    yield CreateDelegationTokenRequest(max_lifetime_ms=2**62), 3
    for version in (1, 2):
        for mac in (b"", b"x" * 64):
            yield RenewDelegationTokenRequest(hmac=mac, renew_period_ms=-1), version
            yield ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=-1), version
    for owner in ("ada", "tom"):
        named = DescribeDelegationTokenOwner(principal_type="User", principal_name=owner)
        yield DescribeDelegationTokenRequest(owners=[named]), 3
    yield DescribeDelegationTokenRequest(owners=None), 3


def made_by(line: BlockingConnection, request: Any, version: int | None = None) -> Any:
    """The answer.  (Apache Kafka gives it before its own broker knows of the token.)"""
    made = line.request(request, version)
    if made.error_code or not isinstance(request, CreateDelegationTokenRequest):
        return made
    deadline = time.monotonic() + 10
    while made.token_id not in {
        token.token_id for token in line.request(DescribeDelegationTokenRequest(owners=None)).tokens
    }:
        assert time.monotonic() < deadline
    return made


def compare(mine: BlockingConnection, theirs: BlockingConnection, works: bool) -> None:
    for request, version in asked():
        pair = [plain(made_by(line, request, version)) for line in (mine, theirs)]
        assert pair[0] == pair[1], (request, version)
    if not works:
        return
    for period in (-1, 0, 1000, 2**62):
        for renewed in (True, False):
            pair = []
            for line in (mine, theirs):
                mac = made_by(line, CreateDelegationTokenRequest(max_lifetime_ms=500_000)).hmac
                request = (
                    RenewDelegationTokenRequest(hmac=mac, renew_period_ms=period)
                    if renewed
                    else ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=period)
                )
                pair.append((plain(line.request(request)), plain(line.request(request)) if period < 0 else 0))
            assert pair[0] == pair[1], request
    for line in (mine, theirs):  # somebody else's, of which this one is neither owner nor renewer
        other = {"owner_principal_type": "User", "owner_principal_name": "tom"}
        mac = made_by(line, CreateDelegationTokenRequest(max_lifetime_ms=-1, **other)).hmac
        assert line.request(RenewDelegationTokenRequest(hmac=mac, renew_period_ms=-1)).error_code == 63
        assert line.request(ExpireDelegationTokenRequest(hmac=mac, expiry_time_period_ms=-1)).error_code == 63


def compare_bearers(
    ours: TokenNode, kafka: SecuredKafka, mine: BlockingConnection, theirs: BlockingConnection
) -> None:
    pairs = []
    for line, port in ((mine, ours.port), (theirs, kafka.ports["SHORT"])):
        made = made_by(line, CreateDelegationTokenRequest(max_lifetime_ms=-1))
        with BlockingConnection("127.0.0.1", port, security=by_token(made, "SCRAM-SHA-512")) as bearer:
            pairs.append(
                [plain(bearer.request(request, version)) for request, version in asked()]
                + [plain(bearer.request(RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=-1)))]
            )
    assert pairs[0] == pairs[1]


def plain(answer: Any) -> Any:
    """An answer without what must differ: ids, HMACs, and when it was."""
    if hasattr(answer, "tokens"):
        return answer.error_code, sorted(repr(times(token)) for token in answer.tokens)
    return times(answer)


def times(answer: Any) -> dict[str, Any]:
    found = {name: getattr(answer, name) for name in type(answer).__annotations__}
    began = found.get("issue_timestamp_ms", found.get("issue_timestamp", 0))
    for name, value in list(found.items()):
        if isinstance(value, int) and "timestamp" in name and value > 0:
            found[name] = round(value / 1000 - (began / 1000 if began > 0 else time.time()), -1)
        elif isinstance(value, bytes | memoryview):
            found[name] = len(value)
        elif name == "token_id":
            found[name] = bool(re.fullmatch(r"[\w-]{22}", value)) if value else value
        elif name == "renewers":
            found[name] = [(one.principal_type, one.principal_name) for one in value]
    found.pop("throttle_time_ms", None)
    return found
