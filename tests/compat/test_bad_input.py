"""Bad input and faults against a node in a process of its own: it refuses in words, or serves the others on.

The same faults one by one, faster and deeper, are in tests/server, tests/log, tests/wire and tests/test_config.py.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.errors import BarnabasError

pytestmark = pytest.mark.compat

MB = 1 << 20
HALF_OPEN = 800


@pytest.fixture
def formatted(tmp_path: Path) -> NodeProcess:
    """A node that was formatted and never started."""
    node = NodeProcess(tmp_path / "node")
    node.format()
    return node


def refused(node: NodeProcess) -> str:
    """`barnabas start` ends by itself, in words: returns them."""
    run = subprocess.run(
        [sys.executable, "-m", "barnabas", "start", str(node.properties)],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert run.returncode in (1, 2, 4, 5, 6), run.stderr
    assert "Traceback" not in run.stderr, run.stderr
    assert "error: " in run.stderr
    assert "next: " in run.stderr
    return run.stderr


# starting


def test_a_taken_port_is_named(formatted: NodeProcess) -> None:
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", formatted.port))
        other.listen()
        assert f"port {formatted.port} is taken" in refused(formatted)


def test_the_directory_of_another_node_is_refused(formatted: NodeProcess) -> None:
    formatted.set("node.id", "2")
    assert "belongs to node 1" in refused(formatted)


def test_directories_of_two_clusters_are_refused(formatted: NodeProcess, tmp_path: Path) -> None:
    other = NodeProcess(tmp_path / "other")
    other.format()
    formatted.set("log.dirs", f"{formatted.data},{other.data}")
    assert "belongs to cluster" in refused(formatted)


def test_a_directory_in_use_is_refused(one_node: NodeProcess) -> None:
    second = NodeProcess(one_node.folder / "second", **{"log.dirs": str(one_node.data)})
    words = refused(second)
    assert "locked" in words
    assert str(one_node.data) in words


def test_a_missing_directory_is_not_made_up(formatted: NodeProcess, tmp_path: Path) -> None:
    """Without that of the metadata there is no start; without another one the node serves the rest."""
    gone = tmp_path / "unmounted"
    formatted.set("log.dirs", f"{gone},{formatted.data}")
    assert str(gone) in refused(formatted)
    assert not gone.exists()
    formatted.set("log.dirs", f"{formatted.data},{gone}")
    formatted.start()
    assert formatted.stop() == 0
    assert f"log directory {gone} is missing" in formatted.log.read_text()
    assert not gone.exists()


def test_an_unformatted_directory_is_refused_and_left_alone(tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node")
    assert "storage format" in refused(node)
    assert not node.data.exists()


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("log.segment.byte", "1", "did you mean log.segment.bytes?"),
        ("fetch.max.bytes", "10", "the nearest value allowed is 1024"),
    ],
)
def test_a_senseless_setting_names_the_nearest(
    formatted: NodeProcess, name: str, value: str, words: str
) -> None:
    formatted.set(name, value)
    assert words in refused(formatted)


# disks


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Path]:
    """A volume of its own, 24 MiB, which may be filled or made read-only; skips where one may not mount."""
    place = tmp_path / "volume"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=24m", "none", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a volume can be mounted by root only")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def remount(place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(place)], check=True)


def test_a_read_only_directory_is_refused(volume: Path, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node")
    node.data = volume / "data"
    node.set("log.dirs", str(node.data))
    node.format()
    remount(volume, "ro")
    assert "ead-only" in refused(node)


def test_a_full_disk_refuses_records_loses_nothing_acknowledged_and_goes_on_when_it_has_room(
    volume: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    node = NodeProcess(tmp_path / "node")
    request.addfinalizer(node.discard)
    node.data = volume / "data"
    node.set("log.dirs", str(node.data))
    node.start()
    acknowledged: list[bytes] = []
    with suppress(BarnabasError), Producer(node.bootstrap, delivery_timeout=5) as producer:
        for number in range(100):
            value = b"%d:" % number + os.urandom(500_000)
            producer.send("t", value, partition=0).result(20)  # full: refused again and again
            acknowledged.append(value)
    assert node.process is not None
    assert node.process.poll() is None
    assert 5 < len(acknowledged) < 60
    remount(volume, "size=200m")
    with Producer(node.bootstrap) as producer:
        producer.send("t", b"more", partition=0).result(30)
    words = node.log.read_text()
    assert "log.disk-full" in words and "log.disk-has-room" in words
    assert "Traceback" not in words and "directory-offline" not in words
    found = read_all(node, "t", len(acknowledged) + 1, last=b"more")
    assert [value for value in found if value in set(acknowledged)] == acknowledged
    assert found[-1] == b"more"
    assert len(set(found)) == len(found) <= len(acknowledged) + 2, "the refused one may be there, once"
    assert node.stop() == 0


# files


def read_all(node: NodeProcess, topic: str, at_least: int, *, last: bytes | None = None) -> list[bytes]:
    """The values of partition 0 from its start; waits until there are so many, and until `last` is there."""
    found: list[bytes] = []
    deadline = time.monotonic() + 20
    with Consumer(node.bootstrap) as consumer:
        consumer.assign([(topic, 0)])
        consumer.seek(topic, 0, "earliest")
        while (len(found) < at_least or last not in (None, *found)) and time.monotonic() < deadline:
            found += [bytes(message.value or b"") for message in consumer.poll(1.0)]
    return found


@pytest.fixture
def stopped(one_node: NodeProcess) -> NodeProcess:
    """A node that was killed after it had taken a hundred records, each a batch of its own."""
    with Admin(one_node.bootstrap) as admin:
        admin.create_topic("t", partitions=1, replication=1)
    with Producer(one_node.bootstrap, linger=0) as producer:
        for number in range(100):
            producer.send("t", b"value-%d" % number, partition=0).result(20)
    one_node.kill()
    return one_node


def test_a_torn_end_of_a_log_is_cut_and_the_rest_is_served(stopped: NodeProcess) -> None:
    segment = stopped.data / "t-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-10])
    stopped.start()
    assert read_all(stopped, "t", 99) == [b"value-%d" % number for number in range(99)]
    assert "log.recovered" in stopped.log.read_text()


def test_a_log_is_served_up_to_the_first_wrong_byte(stopped: NodeProcess) -> None:
    segment = stopped.data / "t-0" / f"{0:020}.log"
    content = bytearray(segment.read_bytes())
    at = content.index(b"value-50")
    content[at] ^= 0xFF
    segment.write_bytes(content)
    stopped.start()
    assert read_all(stopped, "t", 50) == [b"value-%d" % number for number in range(50)]


def test_files_of_others_in_the_directory_are_left_alone(stopped: NodeProcess) -> None:
    foreign = stopped.data / "lost+found"
    foreign.mkdir()
    (foreign / "note").write_text("mine")
    (stopped.data / "notes.txt").write_text("mine too")
    (stopped.data / "t-0" / "core.1234").write_text("a dump")
    stray = stopped.data / "stray-0"
    shutil.copytree(stopped.data / "t-0", stray)
    (stray / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ")
    stopped.start()
    assert len(read_all(stopped, "t", 100)) == 100
    assert (foreign / "note").read_text() == "mine"
    assert (stopped.data / "notes.txt").read_text() == "mine too"
    assert (stopped.data / "t-0" / "core.1234").read_text() == "a dump"
    (aside,) = stopped.data.glob("stray-0*")
    assert aside.name.endswith("-stray"), "what no topic owns is put aside, not deleted"
    assert (aside / f"{0:020}.log").stat().st_size > 0


def test_a_damaged_metadata_log_is_refused_in_words(stopped: NodeProcess) -> None:
    quorum_state = stopped.data / "__cluster_metadata-0" / "quorum-state"
    quorum_state.write_text("{not json")
    assert "quorum-state" in refused(stopped)


# wire


def garbage(chance: random.Random) -> Iterator[bytes]:
    """Frames that no client sends."""
    yield struct.pack(">i", -1)
    yield struct.pack(">i", 0)
    yield struct.pack(">i", 2**31 - 1)
    yield struct.pack(">i", -(2**31))
    yield b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
    yield b"hello, is anybody there?\n" * 10
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(600)
    for key in (-1, 4, 5, 6, 7, 999, 32767):
        yield struct.pack(">ihhih", 10, key, 0, 1, -1)
    for key in range(95):
        yield struct.pack(">ihhih", 10, key, 32767, 1, -1)  # a version of the far future
        claims = struct.pack(">hhih", key, 0, 1, -1) + b"\x7f\xff\xff\xff" * 4
        yield struct.pack(">i", len(claims)) + claims  # everything claims to be huge
        body = struct.pack(">hhih", key, chance.randrange(14), 1, -1) + chance.randbytes(
            chance.randrange(200)
        )
        yield struct.pack(">i", len(body)) + body
    for _ in range(300):
        yield chance.randbytes(chance.randrange(1, 400))


def test_senseless_bytes_on_both_ports_stop_nobody(node: NodeProcess) -> None:
    with Admin(node.bootstrap) as admin:
        admin.create_topic("t", partitions=1, replication=1)
    before = resident(node)
    sent = 0
    for port in (node.port, node.controller_port):
        for bad in garbage(random.Random(port % 7)):
            with socket.create_connection(("127.0.0.1", port), timeout=5) as client:
                client.sendall(bad)
                client.shutdown(socket.SHUT_WR)
                client.settimeout(10)
                try:
                    while client.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
            sent += 1
    assert sent > 1000
    served(node, b"still here")
    assert resident(node) < before + 40 * MB
    words = node.log.read_text()
    assert "Traceback" not in words, words[words.index("Traceback") - 500 :][:3000]


def served(node: NodeProcess, value: bytes) -> None:
    with Producer(node.bootstrap, linger=0) as producer:
        producer.send("t", value, partition=0).result(10)


def resident(node: NodeProcess) -> int:
    assert node.process is not None
    pages = Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_clients_that_hang_in_every_way_stop_nobody(node: NodeProcess) -> None:
    """Half-open ones, fifty that send a byte at a time, fifty that ask for much and never read.

    All from one address, and fewer than one may have (`max.connections.per.ip`): one too many is turned away.
    """
    with Admin(node.bootstrap) as admin:
        admin.create_topic("t", partitions=1, replication=1)
    with Producer(node.bootstrap) as producer:
        for _ in range(20):
            producer.send("t", os.urandom(MB - 100), partition=0).result(20)
    before = resident(node)
    ask = fetch_frame("t")
    with ExitStack() as stack:

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=10))

        for _ in range(HALF_OPEN):
            connect().sendall(b"\0\0")
        deaf = [connect() for _ in range(50)]
        for client in deaf:
            client.setblocking(False)
            for _ in range(20):
                try:
                    client.send(ask)
                except BlockingIOError:
                    break
        slow = [connect() for _ in range(50)]
        stop = threading.Event()

        def drip() -> None:
            announced = struct.pack(">i", 90 * MB) + ask[4:] + bytes(1000)
            for at in range(len(announced)):
                for client in slow:
                    try:
                        client.send(announced[at : at + 1])
                    except OSError:
                        return
                if stop.wait(0.05):
                    return

        dripping = threading.Thread(target=drip)
        dripping.start()
        longest = 0.0
        for number in range(50):
            started = time.monotonic()
            served(node, b"%d" % number)
            longest = max(longest, time.monotonic() - started)
        stop.set()
        dripping.join()
        assert longest < 5
        assert resident(node) < before + 150 * MB
    assert "Traceback" not in node.log.read_text()


def fetch_frame(topic: str) -> bytes:
    """Fetch v4 of partition 0 from its start, 50 MiB at most."""
    name = topic.encode()
    body = struct.pack(">hhih", 1, 4, 1, -1) + struct.pack(">iiiib", -1, 500, 1, 50 * MB, 0)
    body += struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiqi", 1, 0, 0, 50 * MB)
    return struct.pack(">i", len(body)) + body
