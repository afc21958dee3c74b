"""One name per node and listener: clients hear the same address of a node, whichever node they ask."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.model import NodeId
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.context import Client

DIALLED = ("10.0.0.7", 9092)


def told(
    registered: str, dialled: str = DIALLED[0], *, brokers: int = 3, advertised: bool = False, kind: str = "B"
) -> tuple[str, int]:
    """What node 1 says about itself."""
    members = {NodeId(id_): None for id_ in range(1, brokers + 1)}
    nobody: dict[NodeId, None] = {}
    brokers_are, controllers_are = (nobody, members) if kind == "C" else (members, nobody)
    image: Any = SimpleNamespace(brokers=brokers_are, controllers=controllers_are)
    client = Client(1, "PLAINTEXT", kind, advertised, lambda: None)
    client.local_host, client.local_port = dialled, DIALLED[1]
    context: Any = SimpleNamespace(client=client)
    endpoint = SimpleNamespace(listener="PLAINTEXT", host=registered, port=9093)
    return Addresses(NodeId(1), image).of(context, NodeId(1), [endpoint])


@pytest.mark.parametrize("registered", ["host1", "192.168.1.1", "fe80::1"])
def test_a_node_of_several_names_itself_as_the_others_name_it(registered: str) -> None:
    assert told(registered) == told(registered, kind="C") == (registered, 9093)


@pytest.mark.parametrize("registered", ["host1", "localhost", "127.0.0.1"])
def test_a_node_that_is_alone_names_itself_by_what_was_dialled(registered: str) -> None:
    assert told(registered, brokers=1) == told(registered, brokers=1, kind="C") == DIALLED


@pytest.mark.parametrize("registered", ["", "0.0.0.0", "::", "localhost", "127.0.0.1", "127.3.2.1", "::1"])
def test_an_address_of_this_machine_only_gives_way_to_one_that_reached_it_from_outside(
    registered: str,
) -> None:
    assert told(registered) == DIALLED


@pytest.mark.parametrize("dialled", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_clients_on_the_same_machine_hear_the_name_that_the_others_say(dialled: str) -> None:
    assert told("localhost", dialled) == ("localhost", 9093)


def test_what_is_configured_always_counts() -> None:
    assert told("localhost", brokers=1, advertised=True) == ("localhost", 9093)


def test_a_node_without_that_listener_has_no_address() -> None:
    context: Any = SimpleNamespace(client=Client(1, "OTHER", "B", False, lambda: None))
    image: Any = None
    assert Addresses(NodeId(1), image).of(context, NodeId(2), []) == ("", -1)
