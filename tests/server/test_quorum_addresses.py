"""Controllers that moved: what is on disk of their addresses, and that they find each other again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.controller.cluster import CLUSTER
from tests.server.quorum_node import METADATA, OWN, Node, formatted, run, running, until
from tests.server.quorum_processes import Members, eventually, free_ports

from barnabas.model import Endpoint, ReplicaKey, Uuid
from barnabas.raft import messages as raft
from barnabas.raft.discovery.book import MOST_CONTACTS, Contact
from barnabas.server.kraft.codec.answering import request_in
from barnabas.server.kraft.codec.asking import request_out
from barnabas.server.kraft.discovery.address_book import ENDPOINTS_FILE, read_contacts, write_contacts
from barnabas.server.net.context import Client, RequestContext
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.frame import RequestHeader
from barnabas.wire.schemas.own import ExchangeEndpointsRequest, KnownListener, KnownNode

FILE = f"{METADATA}/{ENDPOINTS_FILE}"
TWO = Contact(ReplicaKey(2, Uuid(b"e" * 16)), (Endpoint("CONTROLLER", "host2", 9093),), 4, 1_700_000_000_000)
SIX = Contact(ReplicaKey(6, Uuid(b"f" * 16)), (Endpoint("CONTROLLER", "::1", 9), Endpoint("B", "h", 1)), 0, 0)


def written(*contacts: Contact) -> MemoryDisk:
    disk = formatted()
    write_contacts(disk, METADATA, CLUSTER, contacts)
    return disk


def test_what_is_written_down_is_read_again() -> None:
    assert read_contacts(written(TWO, SIX), METADATA, CLUSTER) == ((TWO, SIX), "")
    assert read_contacts(formatted(), METADATA, CLUSTER) == ((), "")


def spoiled(change: str) -> MemoryDisk:
    disk = written(TWO)
    content = json.loads(disk.read(FILE))
    match change:
        case "port":
            content["nodes"][0]["endpoints"][0]["port"] = 1
        case "version":
            content["version"] = 99
        case "cluster":
            content["clusterId"] = "another"
        case "nodes":
            content["nodes"] = 5
        case "array":
            content = [content]
    text = json.dumps(content).encode()
    text = {"empty": b"", "zeros": bytes(300), "torn": text[:40], "deep": b"[" * 100_000}.get(change, text)
    disk.replace(FILE, text)
    return disk


@pytest.mark.parametrize(
    "change", ["port", "version", "cluster", "nodes", "array", "empty", "zeros", "torn", "deep"]
)
def test_a_damaged_book_is_not_used_and_stops_no_start(change: str) -> None:
    disk = spoiled(change)
    contacts, why = read_contacts(disk, METADATA, CLUSTER)
    assert contacts == () and why

    async def story() -> None:
        async with running(disk) as node:
            assert node.quorum.is_active_controller
            await until(lambda: read_contacts(disk, METADATA, CLUSTER)[1] == "")

    run(story)


def test_a_node_writes_down_where_it_listens_and_each_start_is_newer() -> None:
    disk = formatted()
    starts = []

    async def once(node: Node) -> None:
        await until(lambda: bool(read_contacts(disk, METADATA, CLUSTER)[0]))
        (own,), _ = read_contacts(disk, METADATA, CLUSTER)
        assert own.endpoints == node.quorum.settings.endpoints
        starts.append((own.epoch, own.start))

    async def story() -> None:
        for _ in range(2):
            async with running(disk) as node:
                await once(node)

    run(story)
    assert starts[0] < starts[1]


def test_a_node_with_two_listeners_names_the_leaders_address_at_the_one_that_was_asked() -> None:
    """Another one may speak another protocol: nodes that come over TLS are not sent to a port in clear."""
    both = (*OWN, Endpoint("QUORUM", "127.0.0.1", 9193))

    async def story() -> None:
        async with running(formatted(), endpoints=both) as node:
            await until(lambda: node.quorum.leader_id == 1)
            for asked in both:
                client = Client(1, asked.listener, "C", False, lambda: None)
                context = RequestContext(client, RequestHeader(52, 2, 1, "raft-client-2"), 1, 0.0)
                request, _ = request_out(
                    raft.VoteRequest(0, TWO.key, 0, 0, False, None, CLUSTER), lambda kind: 2
                )
                answer = await node.quorum.steps.handle(context, request)
                assert [(found.host, found.port) for found in answer.node_endpoints] == [asked[1:]]

    run(story)


def test_the_request_says_what_the_book_says_and_a_flood_is_cut_off() -> None:
    request = raft.ExchangeRequest(TWO.key, (TWO, SIX), CLUSTER, 0, Uuid(b"o" * 16))
    message, version = request_out(request, lambda kind: 0)
    assert request_in(message, version, "CONTROLLER") == request
    host = KnownListener(name="C", host="h", port=9)
    nodes = [KnownNode(node_id=i, listeners=[host]) for i in range(5000)]
    nodes[0] = KnownNode(node_id=0, listeners=[host] * 1000)
    nodes[1] = KnownNode(node_id=-5, listeners=[host])
    nodes[2] = KnownNode(node_id=2, epoch=-1, listeners=[KnownListener(name="", host="\x00", port=0)])
    asked = request_in(ExchangeEndpointsRequest(cluster_id="x", nodes=nodes), 0, "CONTROLLER")
    assert isinstance(asked, raft.ExchangeRequest)
    assert [contact.key.id for contact in asked.contacts] == list(range(3, MOST_CONTACTS))


def test_four_voters_that_all_moved_find_each_other_by_one_known_address(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 4, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3, 4])
        for member in nodes.all.values():
            member.kill()
        ports = free_ports(4)
        for member, port in zip(nodes.all.values(), ports, strict=True):
            member.controller = port
            member.settings["listeners"] = f"CONTROLLER://127.0.0.1:{port}"
            member.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{ports[2]}"
            member.write_properties()
        nodes.start()
        nodes.settled([1, 2, 3, 4])


def test_a_node_that_was_down_during_a_move_finds_the_quorum_though_its_configured_address_is_gone(
    tmp_path: Path,
) -> None:
    with Members.formed(tmp_path, 1, "controller", how="standalone") as nodes:
        nodes.start()
        nodes.leader()
        second = nodes.join(2)
        nodes.observed(second)
        absent = nodes.join(7, "broker")
        nodes.observed(absent)
        absent.kill()
        nodes.add(second)
        nodes.settled([1, 2])
        nodes.remove(nodes[1])
        nodes.settled([2])
        nodes[1].kill()
        second.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{nodes[1].controller}"
        absent.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{nodes[1].controller}"
        for member in (second, absent):
            member.write_properties()
        second.kill()
        second.start()
        absent.start()
        nodes.observed(absent)
        line = f"set controller.quorum.bootstrap.servers=127.0.0.1:{second.controller}"
        eventually(lambda: line in absent.text(), 40.0)
