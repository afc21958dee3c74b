"""`make overload ARGS=--secure`: what a good client notices of attacks on a node with TLS and logins.

The node is one of `barnabas start --secure`.  The good client is a user who produces one record after the other.
Beside it, again and again, a super user logs in, and a controller shows its certificate at the controllers'
listener.  An attack is held off if the 99th percentile is at most twice the one without it (or 5 ms more), memory
at most 64 MiB more, and both always got in.  Attackers run at the lowest priority: they stand for other machines.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from barnabas.cli.main import main as barnabas
from barnabas.client.admin.admin import Admin
from barnabas.client.blocking import BlockingConnection
from barnabas.client.security.options import Security
from barnabas.config import parse_properties
from barnabas.errors import BarnabasError
from barnabas.testing.cluster import free_ports
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from bench.attacks import produce_request
from bench.memory import Memory
from bench.secured_attacks import SECURED_ATTACKS, Target

__all__ = ["main"]

GOOD = "good"
QUICK = Path("/dev/shm")
"""Where a sync costs nothing: the node syncs each record."""
PAUSE_S = 0.005
HELP_EVERY_S = 0.5
MORE_MS, MORE_MIB = 5.0, 64.0


class Fared(NamedTuple):
    """How a good client, and those who come to help, fared."""

    name: str
    answers: int
    p50_ms: float
    p99_ms: float
    super_user_ms: float
    """The longest that a super user's login took; infinite if one failed."""
    controller_ms: float
    memory_mib: float

    def holds(self, quiet: Fared) -> bool:
        """Whether the good client was hurt little, help got in, and the node's memory grew little."""
        slower = self.p99_ms <= max(2 * quiet.p99_ms, quiet.p99_ms + MORE_MS)
        helped = max(self.super_user_ms, self.controller_ms) < float("inf")
        return slower and helped and self.memory_mib - quiet.memory_mib <= MORE_MIB and self.answers > 0


class Node:
    """A node of `barnabas start --secure`, with what its users log in with."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.port = free_ports(3)
        command = [sys.executable, "-m", "barnabas", "start", "--secure", "--data", str(home)]
        command += ["--port", str(self.port)]
        with (home.parent / "log").open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self.process.stdout is not None
        said = [line for _, line in zip(range(12), self.process.stdout, strict=False)]
        assert any("alice" in line for line in said), said

    def prepare(self) -> None:
        """Topics, a user who may write and read them, and records for those who fetch without reading."""
        (self.home / "password").write_text("correct horse\n")
        at = ["-b", f"127.0.0.1:{self.port}", "--command-config", str(self.home / "admin.properties")]
        for words in (
            ["users", "add", "alice", "--password-file", str(self.home / "password")],
            *(["topics", "create", topic] for topic in (GOOD, "read", "compacted")),
            ["acls", "add", "--allow-principal", "User:alice", "--operation", "All", "--topic", "*"],
        ):
            with contextlib.redirect_stdout(io.StringIO()):
                assert barnabas([*words, *at]) == 0
        with Admin(f"127.0.0.1:{self.port}", security=admin(self.home)) as helper:
            helper.alter_configs("topic", "compacted", {"cleanup.policy": "compact"})
        large = bytes(write_batch([Record(0, int(time.time() * 1000), b"k", bytes(900_000))]))
        with target(self.home, self.port).log_in() as connection:
            for _ in range(20):
                connection.request(produce_request("read", large), 9)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(20)


def admin(home: Path) -> dict[str, str]:
    return dict(parse_properties((home / "admin.properties").read_text()))


def target(home: Path, port: int) -> Target:
    ca = str(home / "certs" / "ca.pem")
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "alice",
        "sasl.password": "correct horse",
        "ssl.ca.location": ca,
    }
    return Target(port, ca, security)


def good_client(home: Path, port: int, seconds: float) -> None:
    """One record after the other; a super user and a controller now and then.  Prints what each took."""
    times: list[float] = []
    helped: dict[str, list[float]] = {"super_user": [], "controller": []}
    node = dict(parse_properties((home / "node.properties").read_text()))
    inner = next(word for word in node["listeners"].split(",") if word.startswith("CONTROLLER"))
    certificate = {
        "security.protocol": "SSL",
        "ssl.ca.location": str(home / "certs" / "ca.pem"),
        "ssl.certificate.location": str(home / "certs" / "node1.pem"),
        "ssl.key.location": str(home / "certs" / "node1.pem"),
    }
    helpers = {"super_user": (port, admin(home)), "controller": (int(inner.rpartition(":")[2]), certificate)}
    with target(home, port).log_in() as connection:
        batch = bytes(write_batch([Record(0, int(time.time() * 1000), b"k", bytes(100))]))
        until = time.monotonic() + seconds
        next_help = time.monotonic()
        while (begun := time.monotonic()) < until:
            answer = connection.request(produce_request(GOOD, batch), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            times.append(time.monotonic() - begun)
            if time.monotonic() > next_help:
                next_help = time.monotonic() + HELP_EVERY_S
                for name, (where, options) in helpers.items():
                    helped[name].append(got_in(where, options))
            time.sleep(PAUSE_S)
    print(json.dumps({"times": times, "helped": helped}))


def got_in(port: int, options: dict[str, str]) -> float:
    """Seconds until a new connection of that client has its first answer; infinite if it never gets in."""
    begun = time.monotonic()
    try:
        security = Security.parse(options)
        with BlockingConnection("127.0.0.1", port, timeout=20, connect_timeout=20, security=security) as line:
            line.request(ApiVersionsRequest())
    except BarnabasError:
        return float("inf")
    return time.monotonic() - begun


def one(name: str, node: Node, seconds: float) -> Fared:
    """Run one attack (or none) beside a good client."""
    command = [sys.executable, "-m", "bench.secured", str(node.home), str(node.port), str(seconds)]
    memory = Memory(node.process.pid)
    memory.start()
    attacker: subprocess.Popen[str] | None = None
    try:
        if name in SECURED_ATTACKS:
            attacker = subprocess.Popen(
                ["nice", "-n", "19", *command, name], stdout=subprocess.PIPE, text=True
            )
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == "begun\n", "the attack did not begin"
        good = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + 120)
    finally:
        most = memory.stop()
        if attacker is not None:
            attacker.kill()
            attacker.wait()
    said = json.loads(good.stdout)
    times = sorted(said["times"])
    longest = {who: max(took) * 1000 for who, took in said["helped"].items()}
    return Fared(
        name,
        len(times),
        times[len(times) // 2] * 1000,
        times[min(len(times) - 1, len(times) * 99 // 100)] * 1000,
        longest["super_user"],
        longest["controller"],
        most,
    )


def run(seconds: float, only: Sequence[str] = ("",)) -> list[Fared]:
    """All attacks whose names contain one of `only`; the first result is without any."""
    results: list[Fared] = []
    for name in ["nothing", *(name for name in SECURED_ATTACKS if any(part in name for part in only))]:
        with tempfile.TemporaryDirectory(prefix="secured", dir=QUICK if QUICK.is_dir() else None) as folder:
            node = Node(Path(folder) / "home")
            try:
                node.prepare()
                one("warm", node, 0.5)
                results.append(one(name, node, seconds))
            finally:
                node.stop()
            show(results[-1], results[0])
    return results


def show(fared: Fared, quiet: Fared) -> None:
    """A row of the table."""
    if fared is quiet:
        print(
            f"{'attack':28} {'answers':>8} {'p50 ms':>8} {'p99 ms':>8} {'super':>8} {'control':>8} {'memory':>12}"
        )
    said = "" if fared is quiet else "holds" if fared.holds(quiet) else "HURT"
    print(
        f"{fared.name:28} {fared.answers:8} {fared.p50_ms:8.2f} {fared.p99_ms:8.2f} {fared.super_user_ms:8.1f} "
        f"{fared.controller_ms:8.1f} {fared.memory_mib - quiet.memory_mib:+8.1f} MiB {said}",
        flush=True,
    )


def main(seconds: float, only: Sequence[str], check: bool) -> int:
    """The table; 1 where `check` and somebody was hurt."""
    results = run(seconds, only)
    return 1 if check and not all(fared.holds(results[0]) for fared in results[1:]) else 0


if __name__ == "__main__":
    home_, port_, seconds_, *attack_ = sys.argv[1:]
    if attack_:
        SECURED_ATTACKS[attack_[0]](target(Path(home_), int(port_)), float(seconds_) + 2)
    else:
        good_client(Path(home_), int(port_), float(seconds_))
