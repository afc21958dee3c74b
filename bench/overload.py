"""`make overload`: what a good client notices while others attack the node, one attack after the other.

A node in a process of its own; a good client that produces one record after the other (acks=all) and fetches
now and then, in a process of its own; the attackers in a third.  For each attack: the good client's median and
99th percentile, how many answers it had, and by how much the node's memory grew.  An attack is held off
if the 99th percentile is at most twice the one without it (or 10 ms more), and memory at most 64 MiB more.

    make overload ARGS="--seconds 6 --only bombs,uploads --check"
    make overload ARGS=--secure                                        against TLS and logins: `bench.secured`
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.testing.cluster import free_ports
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from bench.attacks import ATTACKS, VICTIMS, produce_request
from bench.memory import Memory
from bench.peers import Barnabas

GOOD = "good"
MORE_MS = 10.0
MORE_MIB = 64.0
PAUSE_S = 0.005


class Result(NamedTuple):
    """How a good client fared."""

    name: str
    answers: int
    p50_ms: float
    p99_ms: float
    most_ms: float
    memory_mib: float

    def holds(self, quiet: Result) -> bool:
        """Whether the good client was hurt little, and the node's memory grew little."""
        slower = self.p99_ms <= max(2 * quiet.p99_ms, quiet.p99_ms + MORE_MS)
        return slower and self.memory_mib - quiet.memory_mib <= MORE_MIB and self.answers > 0


def good_client(port: int, seconds: float) -> None:
    """One record after the other, with a short pause; prints the times of the answers."""
    times: list[float] = []
    with BlockingConnection("127.0.0.1", port, timeout=60) as connection:
        batch = bytes(write_batch([Record(0, int(time.time() * 1000), b"k", bytes(100))]))
        connection.request(produce_request(GOOD, batch), 9)
        until = time.monotonic() + seconds
        while (begun := time.monotonic()) < until:
            answer = connection.request(produce_request(GOOD, batch), 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            times.append(time.monotonic() - begun)
            time.sleep(PAUSE_S)
    print(json.dumps(times))


def one(name: str, port: int, pid: int, seconds: float) -> Result:
    """Run one attack (or none) beside a good client."""
    command = [sys.executable, "-m", "bench.overload", "--port", str(port)]
    attacker: subprocess.Popen[str] | None = None
    memory = Memory(pid)
    memory.start()
    try:
        if name in ATTACKS:
            attacker = subprocess.Popen(
                [*command, "--attack", name, "--seconds", str(seconds + 2)], stdout=subprocess.PIPE, text=True
            )
            assert attacker.stdout is not None
            assert attacker.stdout.readline() == "begun\n", "the attack did not begin"
        good = subprocess.run(
            [*command, "--good", "--seconds", str(seconds)],
            capture_output=True,
            text=True,
            check=True,
            timeout=seconds + 120,
        )
    finally:
        most = memory.stop()
        if attacker is not None:
            attacker.kill()
            attacker.wait()
    times = sorted(json.loads(good.stdout))
    return Result(
        name,
        len(times),
        times[len(times) // 2] * 1000,
        times[min(len(times) - 1, len(times) * 99 // 100)] * 1000,
        times[-1] * 1000,
        most,
    )


def prepare(port: int) -> None:
    """Topics, and records in them for those who fetch without reading."""
    topics = {GOOD: {}, **VICTIMS}
    with BlockingConnection("127.0.0.1", port) as connection:
        wanted = [
            CreatableTopic(
                name=name,
                num_partitions=1,
                replication_factor=1,
                configs=[CreatableTopicConfig(name=key, value=value) for key, value in settings.items()],
            )
            for name, settings in topics.items()
        ]
        connection.request(CreateTopicsRequest(topics=wanted, timeout_ms=20_000))
        large = bytes(write_batch([Record(0, int(time.time() * 1000), b"k", bytes(900_000))]))
        for _ in range(20):
            connection.request(produce_request("read", large), 9)


def run(seconds: float, only: tuple[str, ...] = ("",)) -> list[Result]:
    """All attacks whose names contain one of `only`; the first result is without any."""
    results: list[Result] = []
    for name in ["nothing", *(name for name in ATTACKS if any(part in name for part in only))]:
        with tempfile.TemporaryDirectory(prefix="overload") as folder:
            node = Barnabas(Path(folder), free_ports(2), fsync=False)
            node.start()
            try:
                node.wait()
                prepare(node.port)
                one("warm", node.port, node.pid, 0.5)
                results.append(one(name, node.port, node.pid, seconds))
                show(results[-1], results[0])
            finally:
                node.stop()
    return results


def show(result: Result, quiet: Result) -> None:
    """A row of the table."""
    if result is quiet:
        print(f"{'attack':34} {'answers':>8} {'p50 ms':>8} {'p99 ms':>8} {'most ms':>8} {'memory':>12}")
    said = "" if result is quiet else "holds" if result.holds(quiet) else "HURT"
    print(
        f"{result.name:34} {result.answers:8} {result.p50_ms:8.2f} {result.p99_ms:8.2f} {result.most_ms:8.1f} "
        f"{result.memory_mib - quiet.memory_mib:+8.1f} MiB {said}",
        flush=True,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="make overload", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=6.0, help="length of each attack (6)")
    parser.add_argument("--only", default="", help="only attacks whose names contain one of these (a,b)")
    parser.add_argument("--check", action="store_true", help="exit 1 when a good client was hurt")
    parser.add_argument("--secure", action="store_true", help="attacks on a node with TLS and logins")
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--good", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.good:
        good_client(arguments.port, arguments.seconds)
        return 0
    if arguments.attack:
        ATTACKS[arguments.attack](arguments.port, arguments.seconds)
        return 0
    if arguments.secure:
        from bench import secured

        return secured.main(arguments.seconds, tuple(arguments.only.split(",")), arguments.check)
    results = run(arguments.seconds, tuple(arguments.only.split(",")))
    quiet = results[0]
    return 1 if arguments.check and not all(r.holds(quiet) for r in results[1:]) else 0


if __name__ == "__main__":
    sys.exit(main())
