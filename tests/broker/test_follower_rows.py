"""A follower that asks and listens in bytes ends where one does that has messages, whatever happens meanwhile."""

from __future__ import annotations

import random
from typing import Any

import pytest
from tests.broker.harness import PAGE_CACHE
from tests.broker.replication import ALL, Replicas
from tests.frames import frame

from barnabas.broker.replicas.following.fetcher import Follower
from barnabas.errors import WireError
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import read_request_header, write_response
from barnabas.wire.plane.fetch_asked import FetchWriter
from barnabas.wire.plane.fetch_told import HeardRows
from barnabas.wire.schemas.fetch import FetchRequest

VERSION = 17


class RowReplicas(Replicas):
    """Its followers write their fetches like the last one made of objects, and read answers from their bytes."""

    def __init__(self, **settings: str) -> None:
        self.learned: dict[int, FetchWriter] = {}
        self.written = self.read = 0
        super().__init__(**settings)

    def fetch(self, id_: int) -> bool:
        node, asked = self.nodes[id_], False
        for follower in node.broker.followers.by_leader.values():
            shape = self.learned.get(id(follower))
            rows = follower.next_rows() if shape is not None else None
            if shape is not None and rows is not None:
                self.written += 1
                body = memoryview(shape.write(7, follower.session_epoch, rows))[4:]
                request, _ = decode(FetchRequest, body, VERSION, read_request_header(body)[1])
            else:
                request = follower.next_request(node.now)
                self._learn(follower, request)
            if request is not None:
                asked = True
                self._deliver(id_, follower, request, read=rows is not None)
        return asked

    def _learn(self, follower: Follower, request: Any) -> None:
        self.learned.pop(id(follower), None)
        if isinstance(request, FetchRequest):
            request.max_wait_ms = 0
            if request.session_epoch > 0:
                try:
                    self.learned[id(follower)] = FetchWriter(memoryview(frame(request, VERSION))[4:])
                except WireError:
                    return

    def _deliver(self, id_: int, follower: Follower, request: Any, *, read: bool) -> None:
        node, leader = self.nodes[id_], self.nodes.get(follower.leader)
        if leader is None or id_ in self.cut or follower.leader in self.cut:
            follower.failed(node.now)
            return
        answer = leader.ask(request, VERSION if isinstance(request, FetchRequest) else 11).message
        if read:
            parts: list[Any] = []
            write_response(parts, 7, 1, VERSION, answer)
            whole = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)
            if (told := HeardRows(request.session_id).read(whole[4:], 7)) is not None:
                self.read += 1
                follower.received_rows(told, node.now)
                return
        follower.received(request, answer, node.now)

    def restart(self, id_: int) -> None:
        self.learned.clear()
        super().restart(id_)


def step(dice: random.Random, worlds: list[Replicas], number: int) -> None:
    """Let the same happen to all of them."""
    kind, node = dice.choice("pppppfffffftttsscra"), dice.choice(ALL)
    for world in worlds:
        there = node in world.nodes
        if kind == "p" and world.state.leader in world.nodes:
            world.produce(f"value-{number}", **({"acks": 1} if number % 3 else {}))
        elif kind == "f" and there:
            world.fetch(node)
        elif kind == "t" and there:
            world.turn(node)
        elif kind == "s":
            world.settle(2)
        elif kind == "a":
            world.after(3.0)
        elif kind == "c" and there and len(world.nodes) == len(ALL):
            world.crash(node)
            world.fence(node)
        elif kind == "r":
            for gone in [id_ for id_ in ALL if id_ not in world.nodes]:
                world.restart(gone)


def seen(world: Replicas) -> list[Any]:
    return [
        (id_, world.values(id_), world[id_].high_watermark, world[id_].leading.isr, world[id_].leader_epoch)
        for id_ in sorted(world.nodes)
    ]


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
@pytest.mark.parametrize("seed", range(12))
def test_a_life_in_bytes_is_one_in_messages(seed: int, mode: str) -> None:
    dice = random.Random(seed)
    rows = RowReplicas(log_flush_interval_messages=mode)
    worlds = [Replicas(log_flush_interval_messages=mode), rows]
    for number in range(150):
        step(dice, worlds, number)
        assert seen(worlds[0]) == seen(worlds[1]), number
    assert rows.written > 20
    assert rows.read > 20
    for world in worlds:
        world.settle()
    assert seen(worlds[0]) == seen(worlds[1])
    assert [f.fetches for f in followers(worlds[0])] == [f.fetches for f in followers(rows)]


def followers(world: Replicas) -> list[Follower]:
    return [f for node in world.nodes.values() for f in node.broker.followers.by_leader.values()]
