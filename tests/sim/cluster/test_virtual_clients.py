"""The simulated clients keep their connections as real clients do: one per node."""

from __future__ import annotations

import random

from tests.server.virtual import Virtual

from barnabas.client.aio import AsyncConnection
from barnabas.model import NodeId
from barnabas.sim.cluster.clients.contact import Contact, Timing
from barnabas.sim.cluster.setup import CLIENT_PORT


def test_a_client_keeps_its_connection_to_a_node_that_is_named_by_another_address() -> None:
    """By address (until cluster seed 935129) a producer had two lines to one leader, and overtook itself."""
    with Virtual() as cluster:
        machine = cluster.world.client("c")
        contact = Contact(machine, [], Timing.of(random.Random(1)))
        made: list[AsyncConnection] = []

        async def twice() -> None:
            contact.learn_address(NodeId(1), "n1", CLIENT_PORT)
            made.append(await contact.connection(NodeId(1)))
            contact.learn_address(NodeId(1), "n1.example.org", CLIENT_PORT)
            made.append(await contact.connection(NodeId(1)))

        machine.spawn(twice(), "connect twice")
        cluster.until(lambda: len(made) == 2)
        assert made[0] is made[1] and not made[0].closed
