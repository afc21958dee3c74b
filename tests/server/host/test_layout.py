"""The nodes of one host are derived from the properties of one."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from barnabas.config import Config
from barnabas.errors import BarnabasError, ConfigError
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.model import ReplicaKey
from barnabas.raft.entries import VotersEntry
from barnabas.server.kraft.records import read_snapshot
from barnabas.server.loop.system import SystemClock, SystemRandomness
from barnabas.server.node.host.layout import lay_out
from barnabas.server.node.host.storage import FORMING, Formatted, format_host
from barnabas.sim.kernel.disk import Crashed, Loss, MemoryDisk


def host(**given: str) -> Config:
    return Config.load(
        {"log.dirs": "/data", **{name.replace("_", "."): value for name, value in given.items()}}
    )


def formatted(disk: MemoryDisk, count: int, **given: str) -> Formatted:
    config = host(**given)
    return format_host(config, lay_out(config, count), disk, SystemClock(), SystemRandomness())


def test_four_nodes_have_ids_ports_and_directories_of_their_own_and_the_first_three_are_controllers() -> None:
    nodes = lay_out(host(), 4)
    assert [node.id for node in nodes] == [1, 2, 3, 4]
    assert [node.properties["process.roles"] for node in nodes] == ["broker,controller"] * 3 + ["broker"]
    assert [node.properties["listeners"] for node in nodes] == [
        "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "PLAINTEXT://127.0.0.1:9094,CONTROLLER://127.0.0.1:9095",
        "PLAINTEXT://127.0.0.1:9096,CONTROLLER://127.0.0.1:9097",
        "PLAINTEXT://127.0.0.1:9098",
    ]
    assert [node.directories for node in nodes] == [("/data/1",), ("/data/2",), ("/data/3",), ("/data/4",)]
    servers = {node.properties["controller.quorum.bootstrap.servers"] for node in nodes}
    assert servers == {"127.0.0.1:9093,127.0.0.1:9095,127.0.0.1:9097"}
    for node in nodes:
        Config.load({**host().given, **node.properties})


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_nodes_have_one_controller_for_two_would_stop_with_either(count: int) -> None:
    assert [bool(node.controller) for node in lay_out(host(), count)] == [True, False][:count]


def test_every_port_is_taken_once_however_many_listeners_there_are() -> None:
    config = host(
        listeners="A://:9092,B://:9093,C://:9095,CONTROLLER://:9094",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT,CONTROLLER:PLAINTEXT",
        inter_broker_listener_name="A",
        advertised_listeners="A://example.org:19092",
        barnabas_http_listener="127.0.0.1:8080",
    )
    nodes = lay_out(config, 20)
    ports = [text.rpartition(":")[2] for n in nodes for text in n.properties["listeners"].split(",")]
    assert len(set(ports)) == len(ports) == 3 * 20 + 3
    assert nodes[19].properties["barnabas.http.listener"] == "127.0.0.1:8099"
    assert len({node.properties["advertised.listeners"] for node in nodes}) == 20
    assert nodes[1].controller == "localhost:9098"


def test_positions_and_transactions_have_copies_and_what_is_given_wins() -> None:
    properties = lay_out(host(), 2)[0].properties
    assert properties["offsets.topic.replication.factor"] == "2"
    assert properties["transaction.state.log.min.isr"] == "2"
    given = lay_out(host(offsets_topic_replication_factor="1"), 3)[0].properties
    assert "offsets.topic.replication.factor" not in given


@pytest.mark.parametrize(
    ("given", "count", "said"),
    [
        ({}, 0, "between 1 and 100"),
        ({}, 101, "between 1 and 100"),
        ({"process.roles": "broker", "controller.quorum.bootstrap.servers": "a:1"}, 3, "derives the roles"),
        ({"controller.quorum.bootstrap.servers": "a:1"}, 3, "a cluster of its own"),
        ({"listeners": "PLAINTEXT://:0,CONTROLLER://:9093"}, 3, "port 0"),
        ({"listeners": "PLAINTEXT://:65534,CONTROLLER://:65533"}, 3, "65535 is the last"),
    ],
)
def test_what_cannot_be_derived_is_refused_with_a_next_step(
    given: dict[str, str], count: int, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        lay_out(Config.load({"log.dirs": "/data", **given}), count)


def test_the_first_format_makes_one_cluster_and_the_second_changes_nothing() -> None:
    disk = MemoryDisk()
    first = formatted(disk, 4)
    assert first.now == (1, 2, 3, 4)
    assert formatted(disk, 4) == Formatted(first.cluster_id, ())
    found = [read_meta_properties(disk, f"/data/{id_}") for id_ in (1, 2, 3, 4)]
    assert [(meta.cluster_id, meta.node_id) for meta in found if meta is not None] == [
        (first.cluster_id, id_) for id_ in (1, 2, 3, 4)
    ]
    assert not disk.exists(f"/data/{FORMING}")


@pytest.mark.parametrize("loss", ["all", "some", "none", "kill"])
def test_a_format_that_is_cut_short_goes_on_with_the_same_cluster_and_voters(loss: Loss) -> None:
    cut = 0
    for step in itertools.count():
        disk = MemoryDisk(step)
        disk.crash_at(step)
        with contextlib.suppress(Crashed):
            formatted(disk, 3)
            break
        cut += 1
        disk.crash(loss)
        after = formatted(disk, 3)
        assert len({voters(disk, id_) for id_ in (1, 2, 3)}) == 1
        for id_ in (1, 2, 3):
            meta = read_meta_properties(disk, f"/data/{id_}")
            assert meta is not None and meta.cluster_id == after.cluster_id
            assert (id_, meta.directory_id) in voters(disk, id_)
    assert cut > 30


def test_a_node_more_joins_the_cluster_that_is_there() -> None:
    disk = MemoryDisk()
    first = formatted(disk, 3)
    assert formatted(disk, 5) == Formatted(first.cluster_id, (4, 5))


def test_a_node_less_would_leave_data_behind_and_is_refused_with_the_way() -> None:
    disk = MemoryDisk()
    formatted(disk, 4)
    with pytest.raises(ConfigError, match="/data/4 holds node 4") as error:
        formatted(disk, 3)
    assert "start --nodes 4" in str(error.value.next_step)
    assert "remove-brokers 4" in str(error.value.next_step)


def test_the_directory_of_a_single_node_is_refused() -> None:
    disk = MemoryDisk()
    formatted(disk, 1, log_dirs="/elsewhere")
    with pytest.raises(ConfigError, match="/elsewhere/1 is the directory of a single node"):
        formatted(disk, 3, log_dirs="/elsewhere/1")


def test_directories_of_two_clusters_are_refused() -> None:
    disk = MemoryDisk()
    formatted(disk, 1, log_dirs="/a")
    formatted(disk, 2, log_dirs="/b")
    config = host(log_dirs="/b")
    nodes = lay_out(config, 2)
    mixed = [nodes[0]._replace(directories=("/a/1",)), nodes[1]]
    with pytest.raises(ConfigError, match="several clusters"):
        format_host(config, mixed, disk, SystemClock(), SystemRandomness())


def test_a_note_of_the_first_format_that_cannot_be_read_is_told_of() -> None:
    disk = MemoryDisk()
    disk.make_directories("/data")
    disk.replace(f"/data/{FORMING}", b'{"cluster_id": ')
    with pytest.raises(BarnabasError, match=r"forming.json cannot be read") as error:
        formatted(disk, 3)
    assert error.value.next_step


def voters(disk: MemoryDisk, id_: int) -> tuple[ReplicaKey, ...]:
    """Whom the first snapshot of a node names as voters."""
    content = read_snapshot(
        disk.read(f"/data/{id_}/__cluster_metadata-0/00000000000000000000-0000000000.checkpoint")
    )
    [entry] = [entry for entry in content.entries if isinstance(entry, VotersEntry)]
    return tuple(voter.key for voter in entry.voters)
