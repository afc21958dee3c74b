"""Why a node does not start: each reason is one line with a next step, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import PATIENCE_S

from barnabas.config import Config, LogConfig
from barnabas.errors import BarnabasError, ConfigError, StorageError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from barnabas.model import Endpoint, TopicPartition
from barnabas.server.loop.system import SystemClock, SystemRandomness
from barnabas.server.net.bind import bind
from barnabas.server.node.format import FormatPlan, format_directories
from barnabas.server.node.process import ServerNode
from barnabas.server.node.run import _loop_failed
from barnabas.server.node.storage_setup import set_up_storage
from barnabas.wire.records import Record, read_batch_header, write_batch

FREE = "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"


def config(folder: Path, **settings: str) -> Config:
    given = {"log.dirs": str(folder / "data"), "listeners": FREE}
    return Config.load({**given, **{name.replace("_", "."): value for name, value in settings.items()}})


def refused(node: ServerNode) -> BarnabasError:
    """The error that a start ends with."""

    async def start() -> BarnabasError:
        with pytest.raises(BarnabasError) as caught:
            await node.start()
        return caught.value

    error = asyncio.run(start())
    assert "\n" not in error.message
    assert error.next_step
    return error


def formatted(folder: Path, *, cluster: str = "of-somebody", node_id: int = 1) -> Path:
    data = folder / "data"
    data.mkdir()
    meta = MetaProperties(cluster, node_id, SystemRandomness().uuid())
    write_meta_properties(OsDisk(), str(data), meta, SystemClock().now())
    return data


def test_a_taken_port_is_named_and_nothing_is_formatted(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        error = refused(
            ServerNode(config(tmp_path, listeners=f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:0"))
        )
    assert f"port {port} is taken" in error.message
    assert isinstance(error, ConfigError)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("endpoint", "message"),
    [
        (Endpoint("A", "192.0.2.1", 0), "is no address of this machine"),
        (Endpoint("A", "no.such.host.invalid", 0), "does not resolve"),
    ],
)
def test_an_address_that_cannot_be_bound_says_why(endpoint: Endpoint, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        bind(endpoint)
    assert caught.value.next_step


def without_ipv6(family: int = socket.AF_INET, kind: int = socket.SOCK_STREAM) -> socket.socket:
    """What `socket.socket` does on a kernel without IPv6."""
    if family == socket.AF_INET6:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
    return REAL_SOCKET(family, kind)


REAL_SOCKET = socket.socket


def resolves_to(*addresses: str) -> Callable[..., list[Any]]:
    """What `socket.getaddrinfo` does with such a file of hosts."""
    family = {True: socket.AF_INET6, False: socket.AF_INET}

    def found(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        return [
            (family[":" in a], socket.SOCK_STREAM, 6, "", (a, port, 0, 0) if ":" in a else (a, port))
            for a in addresses
        ]

    return found


def test_without_ipv6_an_empty_host_and_localhost_listen_on_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.server.net.bind.socket.socket", without_ipv6)
    monkeypatch.setattr(socket, "getaddrinfo", resolves_to("::1", "127.0.0.1"))
    for host, address in (("", "0.0.0.0"), ("localhost", "127.0.0.1")):
        (bound,) = bind(Endpoint("A", host, 0))
        with bound:
            assert bound.getsockname()[0] == address
    with pytest.raises(ConfigError, match="::1 is no address of this machine"):
        monkeypatch.setattr(socket, "getaddrinfo", resolves_to("::1"))
        bind(Endpoint("A", "::1", 0))


@pytest.mark.parametrize("addresses", [("127.0.0.2", "127.0.0.1"), ("192.0.2.1", "127.0.0.2", "127.0.0.1")])
def test_a_name_of_several_addresses_listens_on_all_that_are_here_on_one_port(
    monkeypatch: pytest.MonkeyPatch, addresses: tuple[str, ...]
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolves_to(*addresses))
    bound = bind(Endpoint("A", "localhost", 0))
    (port,) = {one.getsockname()[1] for one in bound}
    with contextlib.ExitStack() as stack:
        for one in bound:
            stack.enter_context(one)
        assert port and [one.getsockname()[0] for one in bound] == ["127.0.0.2", "127.0.0.1"]


def test_where_one_address_of_a_name_is_taken_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolves_to("127.0.0.1", "127.0.0.2"))
    with socket.socket() as other:
        other.bind(("127.0.0.2", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"port {port} is taken"):
            bind(Endpoint("A", "localhost", port))
    with socket.socket() as again:
        again.bind(("127.0.0.1", port))


def test_a_node_serves_on_every_address_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", resolves_to("127.0.0.2", "127.0.0.1"))

    async def scenario() -> None:
        listeners = "PLAINTEXT://localhost:0,CONTROLLER://localhost:0"
        async with ServerNode(config(tmp_path, listeners=listeners)) as node:
            for listener in node.listeners:
                assert listener.is_loopback
                for host in ("127.0.0.1", "127.0.0.2"):
                    _, writer = await asyncio.open_connection(host, listener.endpoint.port)
                    writer.close()

    asyncio.run(scenario())


def test_an_empty_host_listens_on_every_interface() -> None:
    (bound,) = bind(Endpoint("A", "", 0))
    with bound:
        bound.listen()
        with socket.create_connection(("127.0.0.1", bound.getsockname()[1]), timeout=PATIENCE_S):
            pass


def test_a_configured_node_does_not_format_itself(tmp_path: Path) -> None:
    error = refused(ServerNode(config(tmp_path, process_roles="broker,controller", node_id="1")))
    assert "is not formatted" in error.message
    assert "barnabas storage format" in (error.next_step or "")
    assert not (tmp_path / "data").exists()


def test_a_directory_of_another_node_is_left_alone(tmp_path: Path) -> None:
    data = formatted(tmp_path, node_id=7)
    before = sorted(os.listdir(data))
    error = refused(ServerNode(config(tmp_path)))
    assert "belongs to node 7" in error.message
    assert sorted(set(os.listdir(data)) - {".lock"}) == sorted(set(before) - {".lock"})


def test_directories_of_two_clusters_do_not_start_together(tmp_path: Path) -> None:
    formatted(tmp_path, cluster="one")
    other = tmp_path / "other"
    other.mkdir()
    formatted(other, cluster="two")
    dirs = f"{tmp_path / 'data'},{other / 'data'}"
    error = refused(ServerNode(config(tmp_path, log_dirs=dirs)))
    assert "belongs to cluster two" in error.message


def test_a_locked_directory_is_not_shared(tmp_path: Path) -> None:
    data = formatted(tmp_path)
    lock = OsDisk().lock(f"{data}/.lock")
    try:
        error = refused(ServerNode(config(tmp_path)))
    finally:
        lock.release()
    assert ".lock" in error.message or "in use" in error.message or "locked" in error.message


@pytest.mark.parametrize("damage", ["missing", "not formatted", "senseless"])
def test_a_damaged_directory_among_others_is_left_out_and_named(
    tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    formatted(tmp_path)
    other = tmp_path / "unmounted"
    if damage != "missing":
        other.mkdir()
    if damage == "senseless":
        (other / "meta.properties").write_text("version=1\nnode.id=one\ncluster.id=x\n")
    settings = config(tmp_path, log_dirs=f"{tmp_path / 'data'},{other}")
    home = asyncio.run(
        set_up_storage(
            settings, OsDisk(), SystemClock(), SystemRandomness(), controller=None, format_new=False
        )
    )
    try:
        assert [directory.path for directory in home.logs.online()] == [str(tmp_path / "data")]
        assert damage in str(home.logs.missing()[str(other)])
        assert "offline" in caplog.text
        assert damage == "senseless" or not (other / "meta.properties").exists()
    finally:
        home.abandon()


def test_the_directory_of_the_metadata_must_be_there(tmp_path: Path) -> None:
    formatted(tmp_path)
    both = f"{tmp_path / 'unmounted'},{tmp_path / 'data'}"
    assert "unmounted" in refused(ServerNode(config(tmp_path, log_dirs=both))).message


def test_a_file_in_the_place_of_the_directory_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    error = refused(ServerNode(config(tmp_path)))
    assert isinstance(error, StorageError)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_directory_is_an_error(tmp_path: Path) -> None:
    data = formatted(tmp_path)
    data.chmod(0o500)
    try:
        assert isinstance(refused(ServerNode(config(tmp_path))), StorageError)
    finally:
        data.chmod(0o700)


def test_senseless_properties_of_a_directory_are_an_error(tmp_path: Path) -> None:
    data = formatted(tmp_path)
    (data / "meta.properties").write_text("version=1\nnode.id=one\ncluster.id=x\n")
    assert "meta.properties" in refused(ServerNode(config(tmp_path))).message


def test_what_recovery_had_to_cut_is_said_and_what_it_should_not_have_had_to_louder(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data, now = formatted(tmp_path), SystemClock().now()
    logs = LogDirectories.open(
        OsDisk(),
        (str(data),),
        cluster_id="of-somebody",
        node_id=1,
        config_for=lambda topic: LogConfig(),
        randomness=SystemRandomness(),
        now=now,
    )
    for topic in ("lost", "torn"):
        log = logs.create(TopicPartition(topic, 0), SystemRandomness().uuid(), now)
        for value in (b"a", b"b"):
            batch = write_batch([Record(0, now.wall_ms, None, value, ())])
            log.append_as_leader(batch, read_batch_header(batch), 0, now)
            log.sync()
            if topic == "lost" or value == b"a":
                logs.checkpoint_recovery_points()
    logs.abandon()
    for topic in ("torn", "lost"):
        path = data / f"{topic}-0" / "00000000000000000000.log"
        os.truncate(path, path.stat().st_size - 1)
    caplog.set_level(logging.INFO, "barnabas")
    home = asyncio.run(
        set_up_storage(
            config(tmp_path), OsDisk(), SystemClock(), SystemRandomness(), controller=None, format_new=False
        )
    )
    home.abandon()
    said = {getattr(record, "event", ""): str(vars(record)) for record in caplog.records}
    assert "torn-0" in said["log.cut"] and "lost-0" in said["log.lost"]


def lived(folder: Path) -> Path:
    """The directory of a node that formatted itself, started and stopped."""

    async def live() -> None:
        async with ServerNode(config(folder)):
            pass

    asyncio.run(live())
    return folder / "data"


def test_the_directory_of_another_cluster_is_refused_where_the_properties_name_theirs(tmp_path: Path) -> None:
    data = lived(tmp_path)
    [id_] = re.findall("cluster.id=(.*)", (data / "meta.properties").read_text())
    mine = "5L6g3nShT-eMCtK--X86sw"
    error = refused(ServerNode(config(tmp_path, barnabas_cluster_id=mine)))
    assert error.message.endswith(f"is of cluster {id_}, and barnabas.cluster.id={mine}")

    async def lives() -> None:
        async with ServerNode(config(tmp_path, barnabas_cluster_id=id_)):
            pass

    asyncio.run(lives())


@pytest.mark.parametrize("configured", [False, True])
def test_a_directory_with_data_is_not_formatted_when_its_properties_are_missing(
    tmp_path: Path, configured: bool
) -> None:
    data = lived(tmp_path)
    (data / "meta.properties").unlink()
    before = sorted(os.listdir(data))
    roles = {"process_roles": "broker,controller", "node_id": "1"} if configured else {}
    error = refused(ServerNode(config(tmp_path, **roles)))
    assert "holds data" in error.message and "docs/disks.md" in (error.next_step or "")
    assert sorted(os.listdir(data)) == before
    plan = FormatPlan.of(config(tmp_path), "5L6g3nShT-eMCtK--X86sw", standalone=True)
    with pytest.raises(StorageError, match="holds data"):
        format_directories(OsDisk(), SystemClock(), SystemRandomness(), plan)


def test_another_directory_with_data_and_no_properties_is_named_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lived(tmp_path)
    other = tmp_path / "other"
    (other / "t-0").mkdir(parents=True)
    (other / "t-0" / "00000000000000000000.log").write_bytes(b"records")

    async def start() -> None:
        async with ServerNode(config(tmp_path, log_dirs=f"{tmp_path / 'data'},{other}")) as node:
            assert "holds data" in str(node.storage.logs.missing()[str(other)])

    asyncio.run(start())
    assert not (other / "meta.properties").exists()


def test_a_format_that_was_cut_short_is_done_again(tmp_path: Path) -> None:
    data = tmp_path / "data"
    plan = FormatPlan.of(config(tmp_path), "5L6g3nShT-eMCtK--X86sw", standalone=True)
    format_directories(OsDisk(), SystemClock(), SystemRandomness(), plan)
    (data / "meta.properties").unlink()
    assert format_directories(OsDisk(), SystemClock(), SystemRandomness(), plan).done


def test_every_flipped_byte_of_the_properties_is_refused_with_a_reason_or_harmless(tmp_path: Path) -> None:
    data = lived(tmp_path)
    path = data / "meta.properties"
    content = path.read_bytes()
    meant = read_meta_properties(OsDisk(), str(data))
    harmless = 0
    for at in range(len(content)):
        for flip in (0x01, 0x20, 0x80, 0xFF):
            path.write_bytes(content[:at] + bytes([content[at] ^ flip]) + content[at + 1 :])
            try:
                assert read_meta_properties(OsDisk(), str(data)) == meant
                harmless += 1
            except StorageError as error:
                assert error.next_step and "meta.properties" in error.message
    assert harmless < 4 * 50, "only in what stands before the ids"
    for cut in range(len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(StorageError):
            read_meta_properties(OsDisk(), str(data))


def test_a_directory_id_that_no_voter_has_is_refused(tmp_path: Path) -> None:
    """As Apache Kafka writes it, without a checksum."""
    data = lived(tmp_path)
    meta = read_meta_properties(OsDisk(), str(data))
    assert meta is not None
    other = SystemRandomness().uuid()
    (data / "meta.properties").write_text(
        f"version=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\ndirectory.id={other}\n"
    )
    error = refused(ServerNode(config(tmp_path)))
    assert str(meta.directory_id) in error.message and str(other) in error.message


def test_a_loop_that_cannot_accept_is_an_event_and_everything_else_is_left_to_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    loop = asyncio.new_event_loop()
    try:
        message = "socket.accept() out of system resource"
        _loop_failed(loop, {"message": message, "exception": OSError(24, "Too many open files")})
        assert [record.getMessage() for record in caplog.records] == ["connections cannot be accepted"]
        _loop_failed(loop, {"message": "something else", "exception": ValueError("it")})
        assert "something else" in caplog.records[-1].getMessage()
    finally:
        loop.close()
