"""A node says when it tells clients an address that another node has."""

from __future__ import annotations

import pytest

from barnabas.controller.image import BrokerEndpoint, BrokerState, ControllerState, MetadataImage
from barnabas.model import Uuid
from barnabas.server.observe import events
from barnabas.server.replication.shared_address import SharedAddresses

ID = Uuid(bytes(range(16)))


def at(port: int) -> tuple[BrokerEndpoint, ...]:
    return (BrokerEndpoint("PLAINTEXT", "10.0.0.1", port, 0),)


def broker(id_: int, port: int, *, fenced: bool = False) -> BrokerState:
    return BrokerState(id_, 5, ID, at(port), {}, None, fenced, False, (), ())


def test_an_address_of_another_node_is_told_once_and_one_of_a_dead_node_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[object, object]] = []
    monkeypatch.setattr(events, "emit", lambda event, **said: told.append((said["address"], said["reason"])))
    image, addresses = MetadataImage("cluster"), SharedAddresses(1)
    addresses.look(image)
    image.brokers[1] = broker(1, 9092)
    image.controllers[1] = ControllerState(1, ID, at(9092), {})
    image.brokers[2] = broker(2, 9093)
    image.brokers[3] = broker(3, 9092, fenced=True)
    addresses.look(image)
    assert told == [], "its own controller, another port, and a dead broker whose address this one has now"
    image.brokers[3] = broker(3, 9092)
    addresses.look(image)
    addresses.look(image)
    assert told == [("10.0.0.1:9092", "node 3 is registered with it")]
    image.controllers[7] = ControllerState(7, ID, at(9092), {})
    addresses.look(image)
    assert told[1:] == [("10.0.0.1:9092", "node 7 is registered with it")]
