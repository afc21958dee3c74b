"""The nodes of a chaotic cluster: processes, disks, and what an operator asks and orders."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.chaos.ground import Ground

from barnabas.client.blocking import BlockingConnection
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.model import METADATA_TOPIC, Uuid
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic
from barnabas.wire.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    RemoveRaftVoterRequest,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

__all__ = ["Cluster", "Node", "until"]

CLUSTER = "5L6g3nShT-eMCtK--X86sw"
SMALL_DISK = 96 << 20
METADATA_FOLDER = f"{METADATA_TOPIC}-0"


class UnsettledError(BarnabasError):
    """The cluster did not come to rest in time."""


PATIENCE_S = 60.0
"""A machine's disk may stand still for half a minute, and everybody's syncs with it."""


def until(look: Callable[[], Any], seconds: float, what: str) -> Any:
    """What `look` returns once it is neither None nor False; errors of the network count as None."""
    deadline, last = time.monotonic() + seconds, None
    while time.monotonic() < deadline:
        try:
            found = look()
        except (BarnabasError, OSError) as error:
            found, last = None, error
        if found is not None and found is not False:
            return found
        time.sleep(0.05)
    raise UnsettledError(f"not within {seconds:.0f} s: {what}" + (f" ({last})" if last else ""))


class Node:
    """One node: `start`, `kill`, `stop`; `hurt` says what is wrong with it, None: nothing."""

    def __init__(self, ground: Ground, number: int, folder: Path, controllers: Iterable[int]) -> None:
        self.number = number
        self.folder = folder
        self.data = folder / "data"
        self.log = folder / "node.log"
        self.stall_file = folder / "stall"
        self.properties = folder / "server.properties"
        self.process: subprocess.Popen[bytes] | None = None
        self.small_disk = False
        self._ground = ground
        host, (port, controller) = ground.host(number), ground.ports(number)
        self.host, self.port, self.controller_port = host, port, controller
        self.data.mkdir(parents=True)
        servers = ",".join(f"{ground.host(n)}:{ground.ports(n)[1]}" for n in controllers)
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(number),
            "listeners": f"PLAINTEXT://{host}:{port},CONTROLLER://{host}:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": servers,
            "log.dirs": str(self.data / "log"),
            "min.insync.replicas": "2",
            "offsets.topic.num.partitions": "3",
            "transaction.state.log.num.partitions": "3",
            "group.initial.rebalance.delay.ms": "0",
            "group.consumer.session.timeout.ms": "6000",
            "group.consumer.min.session.timeout.ms": "6000",
            "group.consumer.heartbeat.interval.ms": "1000",
            "group.consumer.min.heartbeat.interval.ms": "1000",
            "log.segment.bytes": str(4 << 20),
            "log.index.size.max.bytes": str(64 << 10),
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))

    def __repr__(self) -> str:
        return f"node {self.number}"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def mount_small_disk(self) -> bool:
        """Put the data on a volume of its own, which can be filled.  Needs root."""
        words = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "chaos", str(self.data)]
        self.small_disk = not subprocess.run(words, check=False, capture_output=True).returncode
        return self.small_disk

    def format(self, *flags: str) -> None:
        words = [sys.executable, "-m", "barnabas", "storage", "format", "-t", CLUSTER]
        run = subprocess.run(
            [*words, "-c", str(self.properties), *flags], check=False, capture_output=True, text=True
        )
        if run.returncode:
            raise UnsettledError(f"{self} cannot be formatted: {run.stderr}")

    def start(self) -> None:
        words = [sys.executable, "-m", "tests.chaos.node", str(self.properties), str(self.stall_file)]
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*self._ground.prefix(self.number), *words],
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9."""
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(30)

    def stop(self) -> float:
        """SIGTERM; the seconds until it was gone."""
        begun = time.monotonic()
        self.signal(signal.SIGTERM)
        assert self.process is not None
        self.process.wait(60)
        return time.monotonic() - begun

    def stall(self, seconds: float, *, each: float | None = None) -> None:
        """No sync comes back before so many seconds are over; with `each`, none before it took that long (s)."""
        temporary = self.stall_file.with_suffix(".new")
        temporary.write_text(f"{time.time() + seconds} {seconds if each is None else each}")
        temporary.replace(self.stall_file)

    @property
    def ballast(self) -> Path:
        return self.data / "ballast"

    def fill(self) -> None:
        """Leave no room on its small disk."""
        with self.ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(1 << 20))

    def unfill(self) -> None:
        self.ballast.unlink(missing_ok=True)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(30)
        if self.small_disk:
            subprocess.run(["umount", "-l", str(self.data)], check=False, capture_output=True)

    @property
    def directory_id(self) -> Uuid:
        meta = read_meta_properties(OsDisk(), str(self.data / "log"))
        assert meta is not None and meta.directory_id is not None
        return meta.directory_id

    def ask(self, request: Any, timeout: float = 10.0) -> Any:
        with BlockingConnection(self.host, self.port, timeout=timeout, connect_timeout=2.0) as line:
            return line.request(request)


class Cluster:
    """`count` combined nodes, the first three of which begin as voters."""

    def __init__(self, ground: Ground, folder: Path, count: int, small_disk: int) -> None:
        voters = range(1, min(3, count) + 1)
        self.nodes = {n: Node(ground, n, folder / f"n{n}", voters) for n in range(1, count + 1)}
        self.hurt: set[int] = set()
        """Nodes that cannot be asked at the moment."""
        self.small_disk: int | None = None
        if os.geteuid() == 0 and self.nodes[small_disk].mount_small_disk():
            self.small_disk = small_disk
        initial = ",".join(
            f"{n}@{self.nodes[n].host}:{self.nodes[n].controller_port}:{_random_id()}" for n in voters
        )
        for number, node in self.nodes.items():
            node.format(
                *(("--initial-controllers", initial) if number in voters else ("--no-initial-controllers",))
            )

    @property
    def bootstrap(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def close(self) -> None:
        for node in self.nodes.values():
            node.close()

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()
        until(lambda: len(self.ask(MetadataRequest(topics=[])).brokers) == len(self.nodes), 60, "all brokers")

    def well(self) -> list[Node]:
        """Nodes that nothing is wrong with."""
        return [node for number, node in self.nodes.items() if number not in self.hurt and node.alive]

    def ask(self, request: Any, timeout: float = 10.0) -> Any:
        """Ask the first node that is well; requests for the controller find their way from there."""
        for node in self.well():
            return node.ask(request, timeout)
        raise UnsettledError("no node is well")

    def ask_again(self, request: Any, what: str) -> Any:
        """The same until somebody answers: a request that may be repeated, and a machine that may be busy."""
        return until(lambda: self.ask(request), PATIENCE_S, what)

    # -- topics --

    def create(self, topic: str, partitions: int) -> None:
        wanted = CreatableTopic(
            name=topic,
            num_partitions=partitions,
            replication_factor=3,
            configs=[CreatableTopicConfig(name="min.insync.replicas", value="2")],
        )
        answer = self.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
        if answer.topics[0].error_code:
            raise UnsettledError(f"{topic}: {ErrorCode(answer.topics[0].error_code).name}")

    def partitions(self, topics: Iterable[str]) -> list[tuple[str, Any]]:
        """(topic, partition as Metadata tells it), of all of them."""
        asked = [MetadataRequestTopic(name=name) for name in topics]
        answer = self.ask_again(MetadataRequest(topics=asked), "where the partitions are")
        return [(topic.name, partition) for topic in answer.topics for partition in topic.partitions]

    def full(self, topics: Iterable[str]) -> bool:
        """Whether every partition has a leader and all its replicas in sync."""
        found = self.partitions(topics)
        return bool(found) and all(
            p.leader_id > 0 and set(p.isr_nodes) == set(p.replica_nodes) for _, p in found
        )

    def ours(self, node: Node) -> list[str]:
        """The partitions of which this node has a directory, but the quorum's."""
        folders = (node.data / "log").iterdir()
        return sorted(folder.name for folder in folders if folder.is_dir() and folder.name != METADATA_FOLDER)

    # -- the quorum --

    def quorum(self) -> Any:
        """What the active controller says of the quorum."""
        partition = DescribeQuorumRequestPartitionData(partition_index=0)
        topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
        row = self.ask(DescribeQuorumRequest(topics=[topic])).topics[0].partitions[0]
        return row if not row.error_code and row.leader_id > 0 else None

    def controller(self) -> int:
        return int(until(self.quorum, PATIENCE_S, "an active controller").leader_id)

    def voters(self) -> list[int]:
        row = until(self.quorum, PATIENCE_S, "an active controller")
        return [state.replica_id for state in row.current_voters]

    def add_voter(self, number: int) -> None:
        node = self.nodes[number]
        listener = AddRaftVoterRequestListener(name="CONTROLLER", host=node.host, port=node.controller_port)
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER,
            timeout_ms=8000,
            voter_id=number,
            voter_directory_id=node.directory_id,
            listeners=[listener],
        )
        self._change(request, (ErrorCode.NONE, ErrorCode.DUPLICATE_VOTER), f"node {number} becomes a voter")

    def remove_voter(self, number: int) -> None:
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER, voter_id=number, voter_directory_id=self.nodes[number].directory_id
        )
        self._change(request, (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND), f"node {number} is no voter")

    def _change(self, request: Any, good: tuple[ErrorCode, ...], what: str) -> None:
        until(lambda: self.ask(request, timeout=12.0).error_code in good, PATIENCE_S, what)


def _random_id() -> str:
    while (text := str(Uuid(uuid.uuid4().bytes))).startswith("-"):
        pass
    return text
