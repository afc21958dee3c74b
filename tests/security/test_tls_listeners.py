"""Listeners with TLS: who is let in as whom, who is refused with which words, and certificates that change."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.server.harness import Client, World, settled, until

from barnabas.config import Config
from barnabas.controller.image import BrokerEndpoint
from barnabas.errors import ConfigError
from barnabas.server.net.tls import session
from barnabas.server.net.tls.identity import Identity
from barnabas.server.observe import events
from barnabas.server.replication.fast_fencing import _greet
from barnabas.wire.schemas.groups import HeartbeatRequest

Scenario = Callable[[World], Awaitable[None]]
Attempt = Callable[[World], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


def mutual(authority: Authority, wanted: str = "required") -> dict[str, str]:
    return {
        "ssl.keystore.location": str(authority.issue("node")),
        "ssl.truststore.location": str(authority.ca),
        "ssl.client.auth": wanted,
    }


def showing(authority: Authority, certificate: Path | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority.ca))
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


def run(
    settings: dict[str, str],
    scenario: Scenario,
    context: ssl.SSLContext,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
) -> None:
    async def whole() -> None:
        world = World(asyncio.get_running_loop(), settings, context)
        await world.listener.start(world.requests.take)
        try:
            await scenario(world)
        finally:
            world.listener.stop_accepting()
            for connection in list(world.connections.opened.values()):
                connection.abort()
            world.runtime.step.stop()
            await settled()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(whole())


async def greeted(world: World) -> Client:
    client = await world.client()
    client.send(HeartbeatRequest(), 4, 1)
    assert (await client.answer())[0] == 1
    return client


def principal_with(settings: dict[str, str], context: ssl.SSLContext) -> str:
    found: list[str] = []

    async def scenario(world: World) -> None:
        client = await greeted(world)
        found.append(world.only_connection().client.principal)
        client.close()

    run(settings, scenario, context)
    return found[0]


def test_a_client_is_who_its_certificate_says(authority: Authority) -> None:
    client = showing(authority, authority.issue("ada"))
    assert principal_with(mutual(authority), client) == "User:CN=ada"


def test_nobody_gets_a_ticket_that_spares_it_its_certificate_the_next_time(authority: Authority) -> None:
    found: list[bool] = []

    async def scenario(world: World) -> None:
        client = await greeted(world)
        session = client.writer.get_extra_info("ssl_object").session
        found.append(session is not None and session.has_ticket)
        client.close()

    run(mutual(authority), scenario, showing(authority, authority.issue("client")))
    assert found == [False]


def test_a_rule_makes_a_name_of_it(authority: Authority) -> None:
    rules = {"ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/U"}
    assert principal_with(mutual(authority) | rules, showing(authority, authority.issue("ada"))) == "User:ADA"


def test_who_shows_no_certificate_is_anonymous(authority: Authority) -> None:
    assert principal_with(mutual(authority, "requested"), showing(authority, None)) == "User:ANONYMOUS"


def test_a_certificate_that_was_not_asked_for_makes_nobody(authority: Authority) -> None:
    client = showing(authority, authority.issue("ada"))
    assert principal_with(mutual(authority, "none"), client) == "User:ANONYMOUS"


def refused(
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, str],
    attempt: Attempt,
) -> str:
    """What the log says after an attempt; nothing of it stays behind."""

    async def scenario(world: World) -> None:
        await attempt(world)
        await until(lambda: any("handshake failed" in r.message for r in caplog.records))
        await until(lambda: not len(world.connections._newcomers) and not world.connections.opened)

    run(settings, scenario, ssl.create_default_context())
    said = [r.fields["why"] for r in caplog.records if "handshake failed" in r.message]  # type: ignore[attr-defined]
    assert len(said) == 1
    return str(said[0])


async def sent_plain(world: World, data: bytes) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.endpoint.port)
    writer.write(data)
    await reader.read()
    writer.close()


def dialling(context: ssl.SSLContext) -> Attempt:
    async def attempt(world: World) -> None:
        world.tls = context
        with pytest.raises((OSError, asyncio.IncompleteReadError)):
            await greeted(world)

    return attempt


def test_every_refusal_is_named_in_the_log(
    authority: Authority, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    stranger = Authority(tmp_path / "strangers", "another authority")
    own, other = showing(authority, None), stranger.issue("eve")
    old = ssl.create_default_context(cafile=str(authority.ca))
    old.load_cert_chain(authority.issue("late", expired=True))
    shows_other = ssl.create_default_context(cafile=str(authority.ca))
    shows_other.load_cert_chain(other)
    older = ssl.create_default_context(cafile=str(authority.ca))
    older.maximum_version = ssl.TLSVersion.TLSv1_2
    no_rule = {"ssl.principal.mapping.rules": "RULE:^CN=x$/x/"}
    cases: list[tuple[Attempt, dict[str, str], str]] = [
        (lambda w: sent_plain(w, b"\0\0\0\x20\0\x12\0\x03"), {}, "Kafka's protocol without TLS"),
        (lambda w: sent_plain(w, b"GET / HTTP/1.1\r\n\r\n"), {}, "speaks HTTP"),
        (lambda w: sent_plain(w, b"\x16\x03\x01\0\x05hello"), {}, "TLS failed"),
        (dialling(own), {}, "shows no certificate"),
        (dialling(shows_other), {}, "certificate is not taken"),
        (dialling(old), {}, "certificate has expired"),
        (dialling(ssl.create_default_context()), {}, "may not trust it"),
        (dialling(older), {"ssl.enabled.protocols": "TLSv1.3"}, "no version of TLS that this node does"),
        (
            dialling(showing(authority, authority.issue("ada"))),
            no_rule,
            "no rule of ssl.principal.mapping.rules fits",
        ),
    ]
    with caplog.at_level(logging.WARNING):
        for attempt, settings, why in cases:
            caplog.clear()
            assert why in refused(caplog, mutual(authority) | settings, attempt)


def test_who_does_not_finish_a_handshake_is_sent_away(authority: Authority) -> None:
    async def scenario(world: World) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.endpoint.port)
        assert await reader.read() == b""
        writer.close()

    run(mutual(authority) | {"barnabas.login.timeout.ms": "100"}, scenario, showing(authority, None))


def test_the_first_words_of_a_client_may_come_in_pieces_whatever_these_begin_with(
    authority: Authority,
) -> None:
    said = ssl.MemoryBIO()
    client = showing(authority, None).wrap_bio(ssl.MemoryBIO(), said, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    hello = said.read()
    cut = hello.index(b"\0", 5)  # the second piece begins as a request without TLS does

    async def scenario(world: World) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.listener.endpoint.port)
        writer.write(hello[:cut])
        await settled(50)
        writer.write(hello[cut:])
        assert await reader.readexactly(1) == b"\x16"
        writer.close()

    run({"ssl.keystore.location": str(authority.issue("node"))}, scenario, showing(authority, None))


def test_strangers_cannot_use_up_the_connections(authority: Authority) -> None:
    client = showing(authority, authority.issue("ada"))

    async def scenario(world: World) -> None:
        known = await greeted(world)
        port = world.listener.endpoint.port
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        await until(lambda: world.connections._newcomers.full)
        assert await world.refuses(), "two are in a handshake, and this one is too many"
        known.send(HeartbeatRequest(), 4, 2)
        assert (await known.answer())[0] == 2
        for stranger in silent:
            stranger.close()

    run(mutual(authority) | {"barnabas.unauthenticated.connections": "3"}, scenario, client)


def test_a_certificate_that_ends_takes_its_connection_along(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "LONGEST_TIMER_S", 0.01)

    async def scenario(world: World) -> None:
        client = await greeted(world)
        monkeypatch.setattr(session, "_wall_clock", lambda: 1e12)
        assert await client.closed() == b""

    run(mutual(authority), scenario, showing(authority, authority.issue("ada")))


def test_changed_certificates_hold_for_the_next_connection(authority: Authority, tmp_path: Path) -> None:
    shown = tmp_path / "node.pem"
    shown.write_bytes(authority.issue("node").read_bytes())
    context = showing(authority, None)

    async def scenario(world: World) -> None:
        before = await greeted(world)
        first = before.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"]
        replaced(shown, authority.issue("node").read_bytes())
        assert world.listener.tls is not None
        world.listener.tls.look()
        after = await greeted(world)
        assert after.writer.get_extra_info("ssl_object").getpeercert()["serialNumber"] != first
        before.send(HeartbeatRequest(), 4, 2)
        assert (await before.answer())[0] == 2, "who is connected stays"
        for broken in (authority.issue("another").read_bytes(), b"no certificate"):
            replaced(shown, broken)
            world.listener.tls.look()
            await greeted(world)

    run({"ssl.keystore.location": str(shown)}, scenario, context)


def replaced(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.replace(new, path)


def test_another_name_is_taken_over_only_where_that_is_allowed(authority: Authority, tmp_path: Path) -> None:
    shown = tmp_path / "node.pem"
    for allowed, subject in (("false", "CN=node"), ("true", "CN=another")):
        shown.write_bytes(authority.issue("node").read_bytes())
        identity = Identity(
            Config.load({"ssl.keystore.location": str(shown), "ssl.allow.dn.changes": allowed}), "PLAINTEXT"
        )
        replaced(shown, authority.issue("another").read_bytes())
        identity.look()
        assert identity.certificate.subject == subject


def test_fewer_names_are_taken_over_only_where_that_is_allowed(authority: Authority, tmp_path: Path) -> None:
    shown = tmp_path / "node.pem"
    for allowed, left in (("false", 2), ("true", 1)):
        shown.write_bytes(authority.issue("node", hosts=("a", "b")).read_bytes())
        identity = Identity(
            Config.load({"ssl.keystore.location": str(shown), "ssl.allow.san.changes": allowed}), "PLAINTEXT"
        )
        replaced(shown, authority.issue("node", hosts=("a",)).read_bytes())
        identity.look()
        assert len(identity.certificate.names) == left


def test_pkcs12_and_an_encrypted_key_serve_as_well(authority: Authority) -> None:
    store = authority.issue("node").with_suffix(".p12")
    hidden = authority.issue("hidden", password="secret")
    for settings in (
        {
            "ssl.keystore.location": str(store),
            "ssl.keystore.password": "changeit",
            "ssl.keystore.type": "PKCS12",
        },
        {"ssl.keystore.location": str(hidden), "ssl.key.password": "secret"},
    ):
        assert principal_with(settings, showing(authority, None)) == "User:ANONYMOUS"


def test_a_listener_may_have_a_certificate_of_its_own(authority: Authority) -> None:
    shown = {
        "ssl.keystore.location": "none",
        "listener.name.plaintext.ssl.keystore.location": str(authority.issue("n")),
    }
    assert principal_with(shown, showing(authority, None)) == "User:ANONYMOUS"


def test_on_a_listener_with_sasl_only_its_own_setting_asks_for_certificates(authority: Authority) -> None:
    settings = mutual(authority) | {"listener.security.protocol.map": "X:SASL_SSL,PLAINTEXT:PLAINTEXT"}
    context = Identity(Config.load({**settings, "listeners": ONE_LISTENER}), "X").context
    assert context.verify_mode is ssl.CERT_NONE
    own = settings | {"listener.name.x.ssl.client.auth": "required", "listeners": ONE_LISTENER}
    assert Identity(Config.load(own), "X").context.verify_mode is ssl.CERT_REQUIRED


ONE_LISTENER = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"


@pytest.mark.parametrize(
    ("settings", "why", "hint"),
    [
        ({}, "has no certificate", "ssl.keystore.location"),
        (
            {"ssl.keystore.location": "PEM", "ssl.client.auth": "required"},
            "who may sign",
            "ssl.truststore.location",
        ),
        ({"ssl.keystore.location": "JKS"}, "JKS file", "keytool -importkeystore"),
        ({"ssl.keystore.location": "HIDDEN"}, "is encrypted", "ssl.key.password"),
        ({"ssl.keystore.location": "/nowhere"}, "cannot read", "check the path"),
        ({"ssl.keystore.location": "MIXED"}, "does not belong", "name the key"),
        ({"ssl.keystore.location": "PEM", "ssl.principal.mapping.rules": "x"}, "is no rule", "RULE:"),
    ],
)
def test_what_no_listener_could_work_with_is_refused_with_what_helps(
    settings: dict[str, str], why: str, hint: str, authority: Authority, tmp_path: Path
) -> None:
    files = {
        "PEM": lambda: authority.issue("node").read_bytes(),
        "JKS": lambda: b"\xfe\xed\xfe\xed\0\0\0\x02",
        "HIDDEN": lambda: authority.issue("hidden", password="secret").read_bytes(),
        "MIXED": lambda: mixed(authority.issue("a").read_bytes(), authority.issue("b").read_bytes()),
    }
    given = dict(settings)
    if (make := files.get(given.get("ssl.keystore.location", ""))) is not None:
        path = tmp_path / "store"
        path.write_bytes(make())
        given["ssl.keystore.location"] = str(path)
    with pytest.raises(ConfigError, match=why) as caught:
        Identity(Config.load(given), "PLAINTEXT")
    assert hint in (caught.value.next_step or "")


def mixed(key: bytes, chain: bytes) -> bytes:
    """The key of one file, the certificate of another."""
    end = b"-----END PRIVATE KEY-----\n"
    return key[: key.index(end) + len(end)] + chain[chain.index(end) + len(end) :]


def test_a_controller_that_asks_whether_a_broker_lives_leaves_no_refusal_behind(
    authority: Authority, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(world: World) -> None:
        endpoint = BrokerEndpoint("PLAINTEXT", "127.0.0.1", world.listener.endpoint.port, 1)
        await _greet(endpoint, world.runtime.config)
        await greeted(world)
        await until(lambda: len(world.connections.opened) <= 1)

    with caplog.at_level(logging.WARNING):
        run(mutual(authority), scenario, showing(authority, authority.issue("ada")))
    assert not [r for r in caplog.records if getattr(r, "event", "") == "tls.refused"]


def test_a_certificate_that_nobody_would_believe_replaces_no_good_one(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every client, and every other node, would be cut off at the next connection."""
    told: list[str] = []
    monkeypatch.setattr(events, "emit", lambda event, **fields: told.append(str(fields.get("error", ""))))
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other", "another authority")
    shown = tmp_path / "node.pem"
    shown.write_bytes(authority.issue("node").read_bytes())
    settings = {"ssl.keystore.location": str(shown), "ssl.truststore.location": str(authority.ca)}
    identity = Identity(Config.load(settings), "PLAINTEXT")
    good, context = identity.certificate, identity.context
    for worse, why in (
        (stranger.issue("node").read_bytes(), "does not believe"),
        (authority.issue("node", expired=True).read_bytes(), "ended on"),
        (authority.issue("node", early=True).read_bytes(), "is not valid before"),
    ):
        replaced(shown, worse)
        identity.look()
        assert identity.certificate == good and identity.context is context
        assert why in told.pop()
    replaced(shown, authority.issue("node").read_bytes())
    identity.look()
    assert identity.context is not context


def test_a_certificate_that_the_truststore_never_believed_may_be_renewed(
    authority: Authority, tmp_path: Path
) -> None:
    """The truststore is for clients' certificates alone, and the node's is signed elsewhere."""
    (tmp_path / "other").mkdir()
    other = Authority(tmp_path / "other", "another authority")
    shown = tmp_path / "node.pem"
    shown.write_bytes(other.issue("node").read_bytes())
    settings = {"ssl.keystore.location": str(shown), "ssl.truststore.location": str(authority.ca)}
    identity = Identity(Config.load(settings), "PLAINTEXT")
    before = identity.context
    replaced(shown, other.issue("node").read_bytes())
    identity.look()
    assert identity.context is not before
