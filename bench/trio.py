"""Three combined nodes as one cluster, of Barnabas or of Apache Kafka, started, killed and looked at alike."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError
from barnabas.model import Uuid
from bench.peers import PAGE_CACHE, SCRIPTS
from bench.processes import listens, own_environment, refuse_taken_port

__all__ = ["ApacheTrio", "BarnabasTrio", "Trio", "until"]


def until(look: Callable[[], Any], seconds: float = 60.0, what: str = "") -> Any:
    """What `look` returns once it is neither None nor False; errors of the network count as None."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            found = look()
        except (BarnabasError, KafkaException, OSError):
            found = None
        if found is not None and found is not False:
            return found
        time.sleep(0.02)
    raise SystemExit(f"error: not within {seconds:.0f} s: {what or look}")


class Seat:
    """One of the three nodes."""

    def __init__(self, number: int, folder: Path, port: int) -> None:
        self.number, self.folder, self.port = number, folder, port
        self.process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self.properties = folder / "server.properties"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: int) -> float:
        """Signal it and wait for its end; the seconds that took."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(number)
        self.process.wait(120)
        return time.monotonic() - begun


class Trio:
    """`trio.start()`, `trio.create(...)`, `trio.state(topic)`; ports from `port` on."""

    name = ""

    def __init__(
        self,
        folder: Path,
        port: int,
        *,
        fsync: bool,
        brokers: int = 3,
        first: int = 1,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """`settings` beside, or instead of, the usual ones; `first` is the first node.id."""
        self.seats = {n: Seat(n, folder / f"n{n}", port + 10 * n) for n in range(first, first + brokers)}
        self.bootstrap = ",".join(seat.address for seat in self.seats.values())
        for seat in self.seats.values():
            listeners = f"PLAINTEXT://127.0.0.1:{seat.port},CONTROLLER://127.0.0.1:{seat.port + 1}"
            every = {
                "process.roles": "broker,controller",
                "node.id": str(seat.number),
                "controller.quorum.bootstrap.servers": ",".join(
                    f"127.0.0.1:{other.port + 1}" for other in self.seats.values()
                ),
                "listeners": listeners,
                "advertised.listeners": listeners,
                "controller.listener.names": "CONTROLLER",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "log.dirs": str(seat.folder / "data"),
                "min.insync.replicas": "2",
                "log.flush.interval.messages": "1" if fsync else PAGE_CACHE,
                "log.segment.delete.delay.ms": "0",
                "max.connections.per.ip": "100000",  # everybody comes from here
                **(settings or {}),
            }
            seat.properties.write_text("".join(f"{key}={value}\n" for key, value in every.items()))
        self._admin: AdminClient | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes: this one's, with the byte code of what they import."""
        return own_environment()

    def format_command(self, properties: Path) -> list[str]:
        raise NotImplementedError

    def start_command(self, properties: Path) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        """Format, start all, and wait until all three are brokers."""
        cluster, *directories = (_random_id() for _ in range(1 + len(self.seats)))
        voters = ",".join(
            f"{seat.number}@127.0.0.1:{seat.port + 1}:{directory}"
            for seat, directory in zip(self.seats.values(), directories, strict=True)
        )
        for seat in self.seats.values():
            words = [*self.format_command(seat.properties), "-t", cluster, "--initial-controllers", voters]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env=self.environment)
        for number in self.seats:
            self.start_one(number)
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        until(lambda: len(self.admin.list_topics(timeout=5).brokers) == len(self.seats), 240, "all brokers")

    def start_one(self, number: int) -> None:
        seat = self.seats[number]
        refuse_taken_port(seat.port)
        with (seat.folder / "log").open("ab") as log:
            seat.process = subprocess.Popen(
                self.start_command(seat.properties),
                stdout=log,
                stderr=log,
                env=self.environment,
                start_new_session=True,
            )

    def wait_port(self, number: int) -> None:
        """Wait until a node takes connections."""
        port = self.seats[number].port
        until(lambda: listens(port), 180, "a port")

    def stop(self) -> None:
        running = [seat for seat in self.seats.values() if seat.process and seat.process.poll() is None]
        for seat in running:
            assert seat.process is not None
            seat.process.kill()
        for seat in running:
            assert seat.process is not None
            seat.process.wait()

    @property
    def admin(self) -> AdminClient:
        assert self._admin is not None
        return self._admin

    @property
    def pids(self) -> list[int]:
        return [seat.pid for seat in self.seats.values()]

    def create(self, topic: str, assignment: Sequence[Sequence[int]]) -> None:
        """A topic with these replicas, the first of each partition being its leader."""
        wanted = NewTopic(topic, len(assignment), replica_assignment=[list(one) for one in assignment])
        self.admin.create_topics([wanted])[topic].result(30)
        until(lambda: self.full(topic), 120, "all replicas in sync")

    def create_all(self, wanted: Sequence[NewTopic]) -> None:
        """Many partitions, which take their time, all of their replicas in sync."""
        for future in self.admin.create_topics(list(wanted), request_timeout=60).values():
            future.result(90)
        until(lambda: all(self.full(topic.topic) for topic in wanted), 180, "all replicas in sync")

    def leader(self, topic: str) -> int:
        """Who leads partition 0, once somebody does."""

        def look() -> int | None:
            found = self.admin.list_topics(topic, timeout=5).topics[topic].partitions[0].leader
            return found if found > 0 else None

        return int(until(look, what="a leader"))

    def full(self, topic: str) -> bool:
        """Whether every replica of the topic is in sync."""
        partitions = self.admin.list_topics(topic, timeout=5).topics[topic].partitions
        return bool(partitions) and all(len(p.isrs) == len(p.replicas) for p in partitions.values())

    def controller(self) -> int:
        """The active controller."""

        def look() -> int | None:
            with Admin(self.bootstrap, timeout=5) as admin:
                found = admin.quorum().leader
                return found if found > 0 else None

        return int(until(look, what="an active controller"))


class BarnabasTrio(Trio):
    name = "Barnabas"

    def format_command(self, properties: Path) -> list[str]:
        return [sys.executable, "-m", "barnabas", "storage", "format", "-c", str(properties)]

    def start_command(self, properties: Path) -> list[str]:
        return [sys.executable, "-m", "barnabas", "start", str(properties)]


class ApacheTrio(Trio):
    name = "Apache Kafka"

    def format_command(self, properties: Path) -> list[str]:
        return [str(SCRIPTS / "kafka-class.sh"), "kafka.tools.StorageTool", "format", "-c", str(properties)]

    def start_command(self, properties: Path) -> list[str]:
        return [str(SCRIPTS / "broker-class.sh"), str(properties)]


def _random_id() -> str:
    while (text := str(Uuid(uuid.uuid4().bytes))).startswith("-"):
        pass
    return text


KILL, STOP = signal.SIGKILL, signal.SIGTERM
