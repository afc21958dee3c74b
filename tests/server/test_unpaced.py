"""What is sent within one machine is not paced, although the system's congestion control may be BBR."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest
from tests.server.harness import WAYS, World

from barnabas.model import Endpoint
from barnabas.server.net.bind import bind, unpace
from barnabas.server.net.connection import Connection
from barnabas.wire.schemas.groups import HeartbeatRequest

pytestmark = pytest.mark.skipif(
    not hasattr(socket, "TCP_CONGESTION"), reason="only Linux tells and lets choose"
)


def control(sock: socket.socket) -> bytes:
    """The name of its congestion control."""
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", ""])
def test_connections_of_a_loopback_address_begin_without_pacing_and_others_as_the_system_says(
    host: str,
) -> None:
    (made,) = bind(Endpoint("PLAINTEXT", host, 0))
    with socket.socket() as usual, made as bound:
        assert control(bound) == (b"reno" if host else control(usual))


@pytest.mark.parametrize("play", WAYS, indirect=True)
def test_a_client_of_the_same_machine_is_found_by_its_address(
    play: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = list[bytes]()
    monkeypatch.setattr("barnabas.server.net.connection.unpace", lambda sock: found.append(control(sock)))

    async def scenario(world: World) -> None:
        client = await world.client()
        client.send(HeartbeatRequest(), 4)
        await client.answer()
        assert isinstance(world.only_connection(), Connection)
        assert found == [b"reno"], "the listener has a loopback address"

    play(scenario)


def test_what_cannot_be_changed_stays_as_it_is() -> None:
    with socket.socket(socket.AF_UNIX) as other:
        unpace(other)
