"""The main line of a request: the files that a reader follows from the connection to the deed, traced.

Each request is the first of its kind on a warm connection.  Its main line is what stands on the stack when the
deed is done: the append to the log, the read, the step of adding a voter, the decision to create a topic.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from tests.server.test_node import connect, create, fetch, on, produce, settings

import barnabas
from barnabas.model import Uuid
from barnabas.server.node.process import ServerNode
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.cluster import ApiVersionsRequest
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.quorum import AddRaftVoterRequest, AddRaftVoterRequestListener

ROOT = Path(barnabas.__file__).parent


class MainLine(NamedTuple):
    """A request's deed (file, function), and how many files its main line may have."""

    deed: tuple[str, str]
    most: int


PATHS = {
    "Produce": MainLine(("log/log", "append_fitting"), 7),
    "Fetch": MainLine(("log/reading", "read"), 7),
    "AddRaftVoter": MainLine(("raft/membership/steps", "step_add"), 8),
    "CreateTopics": MainLine(("controller/decisions/topics", "create_topics"), 9),
}


def file_of(frame: FrameType) -> str | None:
    """`raft/node` for a frame of ours."""
    path = Path(frame.f_code.co_filename)
    return path.relative_to(ROOT).with_suffix("").as_posix() if path.is_relative_to(ROOT) else None


async def main_line(asked: Awaitable[Any], deed: tuple[str, str]) -> list[str]:
    """The files on the stack when the deed is done for the first time, from the connection on."""
    found: list[str] = []

    def called(frame: FrameType, event: str, _argument: Any) -> None:
        if event != "call" or found or (file_of(frame), frame.f_code.co_name) != deed:
            return
        at: FrameType | None = frame
        while at is not None:
            name = file_of(at)
            if name is not None and name not in found:
                found.append(name)
            at = at.f_back

    sys.setprofile(called)
    try:
        await asked
    finally:
        sys.setprofile(None)
    return found[::-1]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The main line of each request."""
    found = {}

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            asked = {
                "Produce": lambda: connection.request(produce("t", b"one"), 12),
                "Fetch": lambda: connection.request(fetch("t"), 12),
                "CreateTopics": lambda: create(connection, "u"),
                "AddRaftVoter": lambda: connection.request(newcomer()),
            }
            for name, ask in asked.items():
                found[name] = await main_line(ask(), PATHS[name].deed)

    on(asyncio.new_event_loop, settings(tmp_path_factory.mktemp("node")), work)
    return found


@pytest.mark.parametrize("version", [11, 17])
@pytest.mark.parametrize("who", ["a consumer", "a session"])
def test_a_fetch_goes_one_way_the_first_time_and_the_hundredth(
    who: str, version: int, tmp_path: Path, lines: dict[str, list[str]]
) -> None:
    found: list[list[str]] = []

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            await create(connection, "t")
            await connection.request(produce("t", b"one"), 12)
            topic = node.broker.topic("t")
            assert topic is not None
            session, epoch = 0, -1 if who == "a consumer" else 0

            async def ask() -> None:
                nonlocal session, epoch
                row = FetchPartition(partition=0, partition_max_bytes=1000)
                asked = FetchRequest(
                    session_id=session,
                    session_epoch=epoch,
                    topics=[FetchTopic(topic="t", topic_id=topic.id, partitions=[row])],
                )
                answer: Any = await connection.request(asked, version)
                session, epoch = answer.session_id, epoch + (epoch >= 0)

            for number in range(1, 101):
                if number in (1, 2, 100):
                    found.append(await main_line(ask(), PATHS["Fetch"].deed))
                else:
                    await ask()

    on(asyncio.new_event_loop, settings(tmp_path), work)
    assert found == [lines["Fetch"]] * 3


@pytest.mark.parametrize(
    ("kind", "version", "acks"),
    [
        ("one", 12, -1),
        ("one", 13, 1),
        ("one", 12, 0),
        ("one", 3, -1),
        ("ten", 12, -1),
        ("ten", 8, 1),
        ("lz4", 12, -1),
    ],
)
def test_a_produce_goes_one_way_the_first_time_and_the_hundredth(
    kind: str, version: int, acks: int, tmp_path: Path, lines: dict[str, list[str]]
) -> None:
    """What is packed is looked at more closely, by the same files each time."""
    found: list[list[str]] = []

    async def work(node: ServerNode) -> None:
        async with await connect(node) as connection:
            topics = [f"t{number}" for number in range(10 if kind == "ten" else 1)]
            for topic in topics:
                await create(connection, topic)
            records = write_batch([Record(0, 0, None, b"one" * 100, ())], codec=3 if kind == "lz4" else 0)

            def asked() -> ProduceRequest:
                data = []
                for name in topics:
                    topic = node.broker.topic(name)
                    assert topic is not None
                    rows = [PartitionProduceData(index=0, records=bytes(records))]
                    data.append(
                        TopicProduceData(topic_id=topic.id, partition_data=rows)
                        if version >= 13
                        else TopicProduceData(name=name, partition_data=rows)
                    )
                return ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=data)

            async def ask() -> None:
                await connection.request(asked(), version, silent=not acks)
                if not acks:
                    await connection.request(ApiVersionsRequest(), 0)  # (answered behind it)

            for number in range(1, 101):
                if number in (1, 2, 100):
                    found.append(await main_line(ask(), PATHS["Produce"].deed))
                else:
                    await ask()

    on(asyncio.new_event_loop, settings(tmp_path), work)
    assert found == found[:1] * 3
    assert len(found[0]) <= PATHS["Produce"].most
    assert kind == "lz4" or found[0] == lines["Produce"]


def newcomer() -> AddRaftVoterRequest:
    """A voter that is not there: the leader takes the first step and waits for it."""
    listener = AddRaftVoterRequestListener(name="CONTROLLER", host="127.0.0.1", port=1)
    return AddRaftVoterRequest(
        cluster_id=None,
        timeout_ms=200,
        voter_id=77,
        voter_directory_id=Uuid(b"\1" * 16),
        listeners=[listener],
    )


@pytest.mark.parametrize("name", PATHS)
def test_the_main_line_of_a_request_is_short(name: str, lines: dict[str, list[str]]) -> None:
    line = lines[name]
    print(f"{name}: {' -> '.join(line)}")
    assert line[0] == "server/net/connection"
    assert len(line) <= PATHS[name].most, line


@pytest.mark.parametrize("name", PATHS)
def test_the_architecture_tells_this_main_line(name: str, lines: dict[str, list[str]]) -> None:
    text = (ROOT.parents[1] / "ARCHITECTURE.md").read_text()
    told = text.partition(f"- **{name}**")[2].partition("\n- **")[0]
    assert told, f"ARCHITECTURE.md has no path of {name}"
    assert not [file for file in lines[name] if f"`{file}`" not in told]
