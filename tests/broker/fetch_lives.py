"""Drawn histories of one node with a follower and two consumers, lived twice side by side."""

from __future__ import annotations

import random
from typing import Any

from tests.broker.harness import Answer, Node, batch

from barnabas.broker.sessions import FetchSession
from barnabas.errors import KafkaError
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.codec.message import encode
from barnabas.wire.records import batches

PARTITIONS = 5
FOLLOWER, CONSUMER, COMMITTED = 2, -1, -2
STEPS = 300


def live(seed: int, lives: list[Life], *, upset: float = 1.0) -> None:
    """The same history in all of them: what can be seen from outside is the same at every step.

    `upset`: how much of what unsettles replicas (other leaders, in-sync sets, throttles) happens.
    """
    chance = random.Random(seed)
    for number in range(STEPS):
        step(chance, lives, upset)
        if chance.random() < 0.7:
            for life in lives:
                life.node.turn()
        for life in lives:
            life.collect()
        for life in lives[1:]:
            assert lives[0].state == life.state, f"step {number}"
    assert any(answer.here and answer.message.responses for answer in lives[0].asked)


def drawn_limits(seed: int) -> dict[int, dict[str, int]]:
    """The limits of each client, in bytes; a batch here has 108."""
    chance = random.Random(seed)
    return {
        who: {
            "min_bytes": chance.choice((0, 1, 107, 108, 109, 216, 217, 400)),
            "max_bytes": chance.choice((-1, 0, 1, 107, 108, 215, 216, 217, 400, 1 << 20)),
            "partition_max_bytes": chance.choice((-1, 0, 1, 108, 215, 216, 1 << 20)),
        }
        for who in (FOLLOWER, CONSUMER, COMMITTED)
    }


class Life:
    """One node; the same calls on two of them do the same."""

    def __init__(
        self,
        mode: str,
        *,
        kind: type[Node] = Node,
        session: type[FetchSession] = FetchSession,
        version: int = 12,
        sessions: bool = True,
        limits: int | None = None,
    ) -> None:
        """`kind` of the node and of its fetch `session`s; `version` of the fetches; whether consumers have
        `sessions`.  `limits`: each client has its own, drawn with this seed, and its fetches may all wait."""
        self.limits = None if limits is None else drawn_limits(limits)
        self.with_sessions = sessions
        self.kind_of_session = session
        self.version = version
        self.node = kind(
            MemoryDisk(1),
            log_flush_interval_messages=mode,
            replica_lag_time_max_ms="2000",
            log_retention_check_interval_ms="3000",
        )
        self._create()
        self.asked: list[Answer] = []
        self.sessions: dict[int, tuple[int, int]] = {}
        self.offsets: dict[int, dict[tuple[str, int], int]] = {}
        self.parked: dict[int, Answer] = {}

    def fetch(self, who: int, named: list[int], forget: list[int], wait: int, small: bool) -> None:
        """The next fetch of a client; it names what it has to, and some partitions more."""
        if who in self.parked:
            return
        session, epoch = self.sessions.get(who, (0, 0))
        alone = who < 0 and not self.with_sessions
        offsets = self.offsets.setdefault(who, {})
        if alone:
            named = named or list(range(PARTITIONS))
        elif not epoch:
            offsets.clear()
            named = list(range(PARTITIONS))
        for index in named:
            offsets.setdefault(("t", index), 0)
        positions = {("t", index): offsets["t", index] for index in named}
        for index in forget:
            offsets.pop(("t", index), None)
        answer = self.node.fetch(
            positions,
            version=self.version,
            session=(0, -1) if alone else (session, epoch),
            forget=tuple(("t", index) for index in forget if epoch),
            **self._limits_of(who, wait, small),
            isolation=1 if who == COMMITTED else 0,
            replica=max(-1, who),
            log_start=0 if who == FOLLOWER else -1,
        )
        self.asked.append(answer)
        self.parked[who] = answer
        self.sessions[who] = (session, epoch + 1 if epoch else 0)

    def _limits_of(self, who: int, wait: int, small: bool) -> dict[str, int]:
        """What the fetches of a client say of sizes and of their time."""
        if self.limits is None:
            return {"max_wait_ms": wait, "max_bytes": 150 if small else 1 << 20}
        return {"max_wait_ms": 400, **self.limits[who]}

    def collect(self) -> None:
        """What was answered meanwhile: clients go on from there, mostly."""
        for who, answer in list(self.parked.items()):
            if not answer.here:
                continue
            del self.parked[who]
            alone = who < 0 and not self.with_sessions
            if not alone and (answer.message.error_code or not answer.message.session_id):
                self.sessions.pop(who, None)
                continue
            if not alone:
                _, epoch = self.sessions[who]
                self.sessions[who] = (answer.message.session_id, epoch or 1)
            for place, data in answer.partitions.items():
                where = ("t", place[1])
                if data.error_code == 1:
                    partition = self.node.broker.partition(*where)
                    self.offsets[who][where] = partition.log_start_offset if partition else 0
                for _, header in batches(bytes(data.records or b"")):
                    self.offsets[who][where] = header.last_offset + 1
        for session in self.node.broker.sessions._sessions.values():
            session.__class__ = self.kind_of_session

    def delete_records(self, index: int) -> None:
        partition = self.node.broker.partition("t", index)
        if partition is not None and partition.is_leader:
            try:
                partition.delete_records(max(0, partition.high_watermark - 1))
            except KafkaError:
                assert partition.high_watermark == 0

    def _create(self) -> None:
        self.node.create(
            "t", PARTITIONS, replicas=(1, 2), internal_segment_bytes="300", retention_bytes="900"
        )

    def again(self) -> None:
        """The topic is deleted, and there is another of its name."""
        self.node.delete("t")
        self.node.turn()
        self._create()

    @property
    def state(self) -> list[Any]:
        """What can be seen from outside."""
        found: list[Any] = [
            encode(answer.message, self.version) if answer.here else None for answer in self.asked
        ]
        for partition in self.node.broker.partitions():
            progress = partition.leading.progress.get(2)
            found.append(
                (
                    repr(partition),
                    partition.laggards(self.node.now),
                    progress and (progress.caught_up_at, progress.log_end, progress.log_start),
                )
            )
        found.append([repr(request) for request in self.node.outside.altering])
        return found


def step(chance: random.Random, lives: list[Life], upset: float) -> None:
    """Do one thing in each life."""
    index, kind = chance.randrange(PARTITIONS), chance.randrange(22)
    if 15 < kind < 21 and upset < 1 and chance.random() >= upset:
        kind = 0
    match kind:
        case 0 | 1 | 2 | 3:
            for life in lives:
                life.node.produce(batch("x" * 40), index=index, acks=1)
        case 4 | 5 | 6 | 7 | 8 | 9 | 10 | 11 | 12:
            who = chance.choice((FOLLOWER, FOLLOWER, CONSUMER, COMMITTED))
            named = sorted(chance.sample(range(PARTITIONS), chance.choice((0, 0, 1, 2, 5))))
            if who == FOLLOWER and chance.random() < 0.7:
                named = list(range(PARTITIONS))
            forget = [index] if chance.random() < 0.05 and index not in named else []
            wait, small = chance.choice((0, 0, 400)), chance.random() < 0.3
            for life in lives:
                life.fetch(who, named, forget, wait, small)
        case 13 | 14:
            seconds = chance.choice((0.1, 0.5, 1.5))
            for life in lives:
                life.node.after(seconds)
                life.node.broker.maintain(life.node.now)
        case 15:
            for life in lives:
                life.delete_records(index)
        case 16:
            leader, isr = chance.choice(((1, (1, 2)), (1, (1,)), (2, (1, 2)), (1, (1, 2))))
            for life in lives:
                life.node.change("t", index, leader=leader, isr=isr)
        case 17:
            isr = chance.choice(((1, 2), (1,)))
            for life in lives:
                life.node.change("t", index, isr=isr)
        case 18:
            replicas = chance.choice(((1, 2), (1,), (1, 2)))
            for life in lives:
                life.node.change("t", index, replicas=replicas, isr=(1,))
        case 19 if chance.random() < 0.2:
            for life in lives:
                life.again()
        case 20:
            throttled, rate = chance.choice(("*", "")), chance.choice(("50", "1000000"))
            for life in lives:
                life.node.configure("t", leader_replication_throttled_replicas=throttled)
                life.node.broker.reconfigure(
                    life.node.config.with_changes({"leader.replication.throttled.rate": rate})
                )
        case _:
            for life in lives:
                life.node.turn()
