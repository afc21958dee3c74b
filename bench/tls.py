"""`python -m bench tls`: what TLS, logins and many ACLs cost, beside an Apache Kafka with the same settings.

  produce, fetch   CPU seconds per GB, 1 MB a request, one in flight, in clear text and over TLS
  handshakes       a new connection each time, TLS 1.3, P-256: CPU milliseconds; how many a second one client makes
  logins           the same with SCRAM-SHA-512, its user's password hashed 4,096 times
  idle             memory of a connection over TLS that says nothing
  acls             a produce request of 1 KiB by a user with one ACL, alone and beside 100,000 (Barnabas only)
  secure           `barnabas start --secure` on an empty directory until a user's record is acknowledged

The least of the rounds counts, both sides in turn.  Data lies in memory (/dev/shm), written once before.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from barnabas import Admin
from barnabas.cli.main import main as barnabas
from barnabas.client.admin.acls import AclRow, create_acls
from barnabas.client.admin.users import set_password
from barnabas.client.aio.connection import AsyncConnection
from barnabas.client.blocking import BlockingConnection
from barnabas.client.security.options import Security
from barnabas.errors import BarnabasError
from barnabas.security.acl import Operation, PatternType, Permission, ResourceType
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing.cluster import free_ports
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from bench.attacks import produce_request
from bench.cells import Figures
from bench.peers import ApacheKafka, Barnabas, Peer, apache_is_here
from bench.processes import cpu_seconds, load, machine, resident_mb
from bench.report import put_between, sides_table
from bench.secured import QUICK
from bench.secured import admin as super_user

BEGIN = "<!-- begin: written by make bench ARGS=tls -->"
END = "<!-- end: written by make bench ARGS=tls -->"
TOPIC = "secured"
LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
USER, PASSWORD = "ada", "correct horse"
LOGGED_IN = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": USER, "sasl.password": PASSWORD}
PRODUCE_VERSION, FETCH_VERSION = 9, 11
BATCH = 1000
"""Records of 1,000 bytes in a request."""
WARM_BYTES = 5 << 30
OTHERS = 100_000
ACLS_AT_ONCE = 1_000
ROWS = {
    "produce_plain": "produce in clear text, CPU s/GB",
    "produce_tls": "produce over TLS, CPU s/GB",
    "fetch_plain": "fetch in clear text, CPU s/GB",
    "fetch_tls": "fetch over TLS, CPU s/GB",
    "handshake_ms": "a handshake and ApiVersions, CPU ms",
    "handshakes": "the same by one client, a second",
    "login_ms": "a handshake, a login by SCRAM-SHA-512 and ApiVersions, CPU ms",
    "idle_kib": "an idle connection over TLS, KiB",
    "acl_us": "a produce request of 1 KiB, its user has one ACL, CPU us",
    "acls_us": f"the same beside {OTHERS:,} other ACLs, CPU us",
    "secure_s": "`start --secure` to the first acknowledged record, s",
}


class Secured:
    """A peer with three listeners for clients: in clear text, over TLS, with a login over TLS."""

    def __init__(self, kind: type[Peer], folder: Path, port: int, certificates: Path) -> None:
        self.port, self.certificates = port, certificates
        names = {"PLAINTEXT": port, "CONTROLLER": port + 1, "TLS": port + 2, "LOGIN": port + 3}
        listeners = ",".join(f"{name}://127.0.0.1:{number}" for name, number in names.items())
        settings = {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL,LOGIN:SASL_SSL",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates / "node.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates / "ca.pem"),
            "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.login.scram-sha-512.sasl.jaas.config": LOGIN,
            "max.connection.creation.rate": "100000",
        }
        self.peer = kind(folder, port, fsync=False, settings=settings)

    def connect(self, way: str) -> BlockingConnection:
        ca = {"ssl.ca.location": str(self.certificates / "ca.pem")}
        words: dict[str, tuple[int, dict[str, str]]] = {
            "plain": (self.port, {}),
            "tls": (self.port + 2, {"security.protocol": "SSL", **ca}),
            "login": (self.port + 3, {"security.protocol": "SASL_SSL", **ca, **LOGGED_IN}),
        }
        port, options = words[way]
        return BlockingConnection("127.0.0.1", port, timeout=60, security=Security.parse(options))

    def start(self) -> None:
        self.peer.start()
        self.peer.wait()
        prepare(self.peer.bootstrap)


def prepare(bootstrap: str) -> None:
    """A topic and a user."""
    with Admin(bootstrap, timeout=60) as admin:
        admin.create_topic(TOPIC)
        set_password(admin.cluster, USER, PASSWORD, iterations=4096)


def checked(answer: Any) -> None:
    """Raises BarnabasError if a batch was not taken."""
    if code := answer.responses[0].partition_responses[0].error_code:
        raise BarnabasError(f"a batch is refused with {code}")


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench tls", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="rounds, both sides in turn (5)")
    parser.add_argument("--requests", type=int, default=400, help="requests of 1 MB in a run (400)")
    parser.add_argument("--only", default="pairs,acls,secure", help="which, separated by commas")
    parser.add_argument("--alone", action="store_true", help="do not run Apache Kafka")
    parser.add_argument("--no-write", action="store_true", help="print the table, leave docs/ as it is")
    options = parser.parse_args(words)
    before, found = load(), dict[str, Figures]()
    print(f"{machine()}; load {before:.1f}", flush=True)
    why = "as asked" if options.alone else apache_is_here()
    if why:
        print(f"measuring alone: {why}")
    with tempfile.TemporaryDirectory(prefix="bench-tls-", dir=QUICK if QUICK.is_dir() else None) as name:
        folder = Path(name)
        if "pairs" in options.only:
            warm(folder)
            kinds = [Barnabas] if why else [Barnabas, ApacheKafka]
            pairs(kinds, folder, options.rounds, options.requests, found)
        if "acls" in options.only:
            acls(folder, options.rounds, found.setdefault(Barnabas.name, {}))
        if "secure" in options.only:
            took = min(secure(folder / f"secure{n}") for n in range(options.rounds))
            found.setdefault(Barnabas.name, {})["secure_s"] = took
    said = f"the least of {options.rounds} rounds, both sides in turn, acknowledgements from the page cache."
    text = sides_table(found, ROWS, said, before)
    print(text)
    if not options.no_write:
        print(f"written: {put_between(BEGIN, END, text)}")
    return 0


def warm(folder: Path) -> None:
    """Memory that was never used costs a virtual machine's host more than the work that is measured."""
    piece = bytes(64 << 20)
    with (folder / "warm").open("wb") as file:
        for _ in range(WARM_BYTES // len(piece)):
            file.write(piece)
    (folder / "warm").unlink()


# -- both sides ------------------------------------------------------------------------------------------


def pairs(
    kinds: Sequence[type[Peer]], folder: Path, rounds: int, requests: int, found: dict[str, Figures]
) -> None:
    certificates = folder / "certs"
    for command in (["init", str(certificates)], ["issue", str(certificates), "node", "--host", "127.0.0.1"]):
        with contextlib.redirect_stdout(io.StringIO()):
            if barnabas(["certs", *command]):
                raise BarnabasError("no certificates")
    sides = [
        Secured(kind, folder / kind.name.replace(" ", ""), free_ports(4), certificates) for kind in kinds
    ]
    try:
        for side in sides:
            side.start()
            for _ in range(3 if isinstance(side.peer, ApacheKafka) else 1):
                one_round(side, requests)
        for _ in range(rounds):
            for side in sides:
                keep(found.setdefault(side.peer.name, {}), one_round(side, requests))
                print(side.peer.name, found[side.peer.name], flush=True)
        for side in sides:
            found[side.peer.name]["idle_kib"] = idle(side)
    finally:
        for side in sides:
            side.peer.stop()


def keep(best: Figures, new: Figures) -> None:
    """The least of each; of rates the most."""
    for name, value in new.items():
        better = max if name == "handshakes" else min
        best[name] = better(best[name], value) if name in best else value


def one_round(side: Secured, requests: int) -> Figures:
    batch = bytes(
        write_batch([Record(n, int(time.time() * 1000), None, bytes(1000), ()) for n in range(BATCH)])
    )
    gigabytes = requests * len(batch) / 1e9
    figures: Figures = {}
    for way in ("plain", "tls"):
        with side.connect(way) as line:
            figures[f"produce_{way}"] = cost(side, lambda: produce(line, batch, requests)) / gigabytes
            figures[f"fetch_{way}"] = cost(side, lambda: fetch(line, requests * len(batch))) / gigabytes
    begun = time.monotonic()
    count = 200
    figures["handshake_ms"] = cost(side, lambda: connect(side, "tls", count)) * 1000 / count
    figures["handshakes"] = count / (time.monotonic() - begun)
    figures["login_ms"] = cost(side, lambda: connect(side, "login", count)) * 1000 / count
    with Admin(side.peer.bootstrap, timeout=60) as admin:  # gives the memory back
        admin.delete_topic(TOPIC)
        time.sleep(1.0)
        admin.create_topic(TOPIC)
    return figures


def cost(side: Secured, work: Callable[[], None]) -> float:
    """CPU seconds of the node."""
    before = cpu_seconds(side.peer.pid)
    work()
    return cpu_seconds(side.peer.pid) - before


def produce(line: BlockingConnection, batch: bytes, requests: int) -> None:
    request = produce_request(TOPIC, batch)
    for _ in range(requests):
        checked(line.request(request, PRODUCE_VERSION))


def fetch(line: BlockingConnection, size: int) -> None:
    """From the beginning, until so many bytes have come."""
    offset = had = 0
    while had < size:
        place = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=TOPIC, partitions=[place])]
        answer = line.request(
            FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, topics=topics), FETCH_VERSION
        )
        records = answer.responses[0].partitions[0].records
        had += len(records or b"")
        offset += BATCH * max(1, len(records or b"") // (BATCH * 1000))


def connect(side: Secured, way: str, count: int) -> None:
    for _ in range(count):
        with side.connect(way) as line:
            line.request(ApiVersionsRequest())


def idle(side: Secured, count: int = 500) -> float:
    """KiB for each connection that has asked once and says nothing more."""
    lines = [side.connect("tls") for _ in range(50)]
    before = resident_mb(side.peer.pid)
    lines += [side.connect("tls") for _ in range(count)]
    for line in lines:
        line.request(ApiVersionsRequest())
    time.sleep(1.0)
    grown = resident_mb(side.peer.pid) - before
    for line in lines:
        line.close()
    return grown * 1e6 / 1024 / count


# -- ACLs ------------------------------------------------------------------------------------------------


def acls(folder: Path, rounds: int, figures: Figures) -> None:
    """Two nodes in turn: one has the user's ACL, the other so many of others beside it."""
    sides = [acl_node(folder / f"acls{others}", others) for others in (0, OTHERS)]
    try:
        for warming in (True, *[False] * rounds):
            for key, side in zip(("acl_us", "acls_us"), sides, strict=True):
                spent = asyncio.run(small_requests(side))
                if not warming:
                    keep(figures, {key: spent})
        print({key: figures[key] for key in ("acl_us", "acls_us")}, flush=True)
    finally:
        for side in sides:
            side.stop()


def acl_node(folder: Path, others: int) -> Peer:
    """A node whose user may write one topic; who comes by the first listener may do anything."""
    port = free_ports(3)
    listeners = f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1},LOGIN://127.0.0.1:{port + 2}"
    settings = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT",
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "inter.broker.listener.name": "PLAINTEXT",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    node = Barnabas(folder, port, fsync=False, settings=settings)
    node.start()
    node.wait()
    prepare(node.bootstrap)
    rows = [may_write(USER, TOPIC), *(may_write(f"user{n}", f"topic{n % 5000}") for n in range(others))]
    with Admin(node.bootstrap, timeout=60) as admin:
        for first in range(0, len(rows), ACLS_AT_ONCE):
            create_acls(admin.cluster, rows[first : first + ACLS_AT_ONCE])
    return node


def may_write(user: str, topic: str) -> AclRow:
    """The ACL that allows it."""
    place = (ResourceType.TOPIC, topic, PatternType.LITERAL)
    return AclRow(*place, f"User:{user}", "*", Operation.WRITE, Permission.ALLOW)


async def small_requests(node: Peer, count: int = 60_000) -> float:
    """CPU microseconds of a produce request of 1 KiB; 20 are in flight."""
    batch = bytes(write_batch([Record(0, int(time.time() * 1000), None, bytes(950), ())]))
    request = produce_request(TOPIC, batch)
    security = Security.parse(LOGGED_IN | {"security.protocol": "SASL_PLAINTEXT"})
    connection = await AsyncConnection.connect("127.0.0.1", node.port + 2, timeout=60, security=security)
    left = iter(range(count))

    async def send() -> None:
        for _ in left:
            checked(await connection.request(request, PRODUCE_VERSION))

    async with connection:
        before = cpu_seconds(node.pid)
        await asyncio.gather(*(send() for _ in range(20)))
        return (cpu_seconds(node.pid) - before) * 1e6 / count


# -- start --secure --------------------------------------------------------------------------------------


def secure(home: Path) -> float:
    """Seconds from the command to the first record that its user has acknowledged."""
    port = free_ports(3)
    command = [sys.executable, "-m", "barnabas", "start", "--secure", "--data", str(home)]
    command += ["--port", str(port)]
    begun = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while (took := time.monotonic() - begun) < 30:
                with contextlib.suppress(BarnabasError, OSError, IndexError):
                    first_record(port, Security.parse(super_user(home)))
                    return time.monotonic() - begun
                time.sleep(0.005)
            raise BarnabasError(f"no record was taken within {took:.0f} s")
        finally:
            process.terminate()


def first_record(port: int, security: Security) -> None:
    with Admin(f"127.0.0.1:{port}", security=security, timeout=10) as admin:
        admin.create_topic(TOPIC)
    with BlockingConnection("127.0.0.1", port, timeout=10, security=security) as line:
        produce(line, bytes(write_batch([Record(0, 0, None, b"first", ())])), 1)
