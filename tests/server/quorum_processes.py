"""Controllers and brokers in processes of their own on loopback, which may be killed and started again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S
from tools.peer import RELEASE

from barnabas.client.blocking import BlockingConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import read_meta_properties
from barnabas.model import METADATA_TOPIC, Uuid
from barnabas.testing.cluster import free_ports as ports_in_a_row
from barnabas.wire.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    AddRaftVoterResponse,
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse

CLUSTER = "5L6g3nShT-eMCtK--X86sw"


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that no dialling socket takes while their node is down."""
    first = ports_in_a_row(count)
    return list(range(first, first + count))


def eventually(look: Callable[[], Any], within: float = PATIENCE_S, what: str = "") -> Any:
    """What `look` returns once it is neither None nor False nor an error of the network."""
    deadline = time.monotonic() + within
    last: object = None
    while time.monotonic() < deadline:
        try:
            found = look()
        except (BarnabasError, OSError, AssertionError) as error:
            found, last = None, error
        if found is not None and found is not False:
            return found
        time.sleep(0.01)
    raise AssertionError(f"not within {within:g} s: {what or look} ({last})")


class Member:
    """One node.  `roles` as process.roles; it is formatted by the command line."""

    def __init__(
        self,
        folder: Path,
        id_: int,
        ports: tuple[int, int],
        bootstrap: Iterable[int],
        roles: str,
        **settings: str,
    ) -> None:
        self.id = id_
        self.folder = folder
        self.port, self.controller = ports
        self.roles = roles
        self.data = folder / "data"
        self.log = folder / "node.log"
        self.process: subprocess.Popen[bytes] | None = None
        listeners = []
        if "broker" in roles:
            listeners.append(f"PLAINTEXT://127.0.0.1:{self.port}")
        if "controller" in roles:
            listeners.append(f"CONTROLLER://127.0.0.1:{self.controller}")
        self.settings = {
            "process.roles": roles,
            "node.id": str(id_),
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"127.0.0.1:{port}" for port in bootstrap),
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.properties = folder / "server.properties"
        self.command = [sys.executable, "-m", "barnabas", "start", str(self.properties)]
        self.write_properties()

    def __repr__(self) -> str:
        return f"<Member {self.id} {self.roles} controller={self.controller}>"

    def write_properties(self) -> None:
        self.properties.write_text("".join(f"{k}={v}\n" for k, v in self.settings.items() if v))

    @property
    def directory_id(self) -> Uuid:
        meta = read_meta_properties(OsDisk(), str(self.data))
        assert meta is not None and meta.directory_id is not None
        return meta.directory_id

    def format(self, *flags: str, cluster: str = CLUSTER) -> None:
        barnabas("storage", "format", "-t", cluster, "-c", str(self.properties), *RELEASE, *flags)

    def start(self) -> Member:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        return self

    def kill(self, number: int = signal.SIGKILL) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number != signal.SIGSTOP:
            self.process.wait(PATIENCE_S)

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE_S)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def ask(self, request: Any, *, broker: bool = False, timeout: float = 30.0) -> Any:
        with BlockingConnection(
            "127.0.0.1", self.port if broker else self.controller, timeout=timeout
        ) as line:
            return line.request(request)

    def describe(self, *, broker: bool = False) -> DescribeQuorumResponsePartitionData:
        """What this node says of the quorum.  `error_code` is set when it does not lead."""
        answer = self.ask(describe_request(), broker=broker, timeout=5)
        row: DescribeQuorumResponsePartitionData = answer.topics[0].partitions[0]
        return row

    def serving(self, within: float = PATIENCE_S) -> None:
        """Wait until its broker answers."""
        eventually(lambda: self.describe(broker=True), within, f"{self} serves")

    def text(self) -> str:
        return self.log.read_text()


def describe_request() -> DescribeQuorumRequest:
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    return DescribeQuorumRequest(topics=[topic])


def barnabas(*arguments: str, code: int = 0, within: float = PATIENCE_S) -> str:
    """Run a command; its standard output."""
    run = subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments],
        capture_output=True,
        text=True,
        timeout=within,
        check=False,
    )
    assert run.returncode == code, f"{arguments}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run.stdout


class Members:
    """Nodes of one cluster.  `with Members.formed(folder, 3) as nodes: ...` ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.all: dict[int, Member] = {}

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.all.values():
            member.close()

    def __getitem__(self, id_: int) -> Member:
        return self.all[id_]

    @classmethod
    def formed(
        cls, folder: Path, count: int, roles: str = "broker,controller", how: str = "initial", **settings: str
    ) -> Members:
        """`how`: "initial" (--initial-controllers), "static" (controller.quorum.voters), "standalone"."""
        nodes = cls(folder)
        ports = free_ports(2 * count)
        pairs = [(ports[2 * i], ports[2 * i + 1]) for i in range(count)]
        bootstrap = [pair[1] for pair in pairs]
        if how == "static":
            settings["controller.quorum.voters"] = ",".join(
                f"{i + 1}@127.0.0.1:{pair[1]}" for i, pair in enumerate(pairs)
            )
            settings["controller.quorum.bootstrap.servers"] = ""
        for i, pair in enumerate(pairs):
            nodes.all[i + 1] = Member(folder / f"n{i + 1}", i + 1, pair, bootstrap, roles, **settings)
        directories = [barnabas("storage", "random-uuid").strip() for _ in pairs] if how == "initial" else []
        initial = ",".join(
            f"{i + 1}@127.0.0.1:{pair[1]}:{directory}"
            for i, (pair, directory) in enumerate(zip(pairs, directories, strict=False))
        )
        flags = {
            "initial": ("--initial-controllers", initial),
            "static": (),
            "standalone": ("--standalone",),
        }[how]
        for member in nodes.all.values():
            member.format(*flags)
        return nodes

    def join(self, id_: int, roles: str = "controller", **settings: str) -> Member:
        """Another node, formatted and started; an observer until it is added."""
        pair = free_ports(2)
        bootstrap = [member.controller for member in self.all.values() if "controller" in member.roles]
        member = Member(self.folder / f"n{id_}", id_, (pair[0], pair[1]), bootstrap, roles, **settings)
        member.format(*(("--no-initial-controllers",) if "controller" in roles else ()))
        self.all[id_] = member
        return member.start()

    def start(self) -> Members:
        for member in self.all.values():
            member.start()
        return self

    def leader(self, within: float = PATIENCE_S) -> Member:
        """The node that leads and has committed in its epoch; waits for one."""

        def look() -> Member | None:
            for member in self.all.values():
                if member.alive and "controller" in member.roles:
                    try:
                        row = member.describe()
                    except (BarnabasError, OSError):
                        continue
                    if not row.error_code and row.high_watermark > 0:
                        return member
            return None

        found: Member = eventually(look, within, "a leader")
        return found

    def settled(
        self, voters: Sequence[int], within: float = PATIENCE_S
    ) -> DescribeQuorumResponsePartitionData:
        """Wait until these are the voters and all of them keep up; what the leader then says."""

        def look() -> DescribeQuorumResponsePartitionData | None:
            row = self.leader(within).describe()
            ids = [state.replica_id for state in row.current_voters]
            near = all(state.log_end_offset >= row.high_watermark - 2 for state in row.current_voters)
            return row if ids == list(voters) and near and not row.error_code else None

        row: DescribeQuorumResponsePartitionData = eventually(look, within, f"voters {voters}")
        return row

    def observed(self, member: Member, within: float = PATIENCE_S) -> None:
        """Wait until the leader has heard of this observer."""

        def look() -> bool:
            observers = self.leader(within).describe().observers
            return any(state.replica_directory_id == member.directory_id for state in observers)

        eventually(look, within, f"{member} observes")

    def add(self, member: Member, at: Member | None = None, *, broker: bool = False) -> None:
        """AddRaftVoter; raises AssertionError unless it was done."""
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER,
            timeout_ms=15000,
            voter_id=member.id,
            voter_directory_id=member.directory_id,
            listeners=[
                AddRaftVoterRequestListener(name="CONTROLLER", host="127.0.0.1", port=member.controller)
            ],
        )
        answer: AddRaftVoterResponse = (at or self.leader()).ask(request, broker=broker)
        assert answer.error_code == ErrorCode.NONE, (
            f"{ErrorCode(answer.error_code).name}: {answer.error_message}"
        )

    def remove(self, member: Member, at: Member | None = None, *, broker: bool = False) -> None:
        """RemoveRaftVoter; raises AssertionError unless it was done."""
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER, voter_id=member.id, voter_directory_id=member.directory_id
        )
        answer: RemoveRaftVoterResponse = (at or self.leader()).ask(request, broker=broker)
        assert answer.error_code == ErrorCode.NONE, (
            f"{ErrorCode(answer.error_code).name}: {answer.error_message}"
        )

    def leaders_by_epoch(self) -> dict[int, set[int]]:
        """Who led which epoch, by what every node wrote into its events."""
        found: dict[int, set[int]] = {}
        for member in self.all.values():
            for line in member.text().splitlines() if member.log.exists() else ():
                if active := re.search(r"quorum\.active: .* epoch=(\d+)", line):
                    found.setdefault(int(active[1]), set()).add(member.id)
                elif other := re.search(r"quorum\.leader: .* epoch=(\d+) leader=(\d+)", line):
                    found.setdefault(int(other[1]), set()).add(int(other[2]))
        return found


def create_topic(member: Member, name: str, *, broker: bool = True, at_port: int | None = None) -> int:
    """Create a topic with one partition and one replica; the error code."""
    request = CreateTopicsRequest(
        topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)], timeout_ms=10000
    )
    answer: CreateTopicsResponse = member.ask(request, broker=broker)
    return int(answer.topics[0].error_code)


__all__ = [
    "CLUSTER",
    "ConnectionFailed",
    "Member",
    "Members",
    "barnabas",
    "create_topic",
    "describe_request",
    "eventually",
    "free_ports",
    "os",
]
