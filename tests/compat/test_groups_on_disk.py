"""A directory with transactions and groups of both protocols goes from us to Apache Kafka and back.

Members speak on with what they knew: their ids, epochs and generations, patterns and static places hold at whoever
coordinates them next, and nobody rebalances for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.compat.conftest import NodeProcess
from tests.compat.side_by_side.forms import form
from tests.compat.side_by_side.learning import learn
from tests.compat.side_by_side.pair import SETTINGS, coordinators_answer
from tests.compat.side_by_side.requests import message
from tests.compat.side_by_side.side import Side
from tests.compat.side_by_side.steps import TOPICS, Step
from tests.compat.side_by_side.walking import codes
from tests.compat.test_compaction import apache_kafka_on, until

from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

pytestmark = pytest.mark.compat

CLASSIC, CONSUMER, SIMPLE = "g0", "g1", "g2"
PATTERN = "(pl|we).*"


class Travellers:
    """The clients: one conversation, whoever answers."""

    def __init__(self, side: Side) -> None:
        self.side = side
        side.begin("travel")
        for name in ("c0", "c1"):
            side.member(name).id = name

    def ask(self, api: str, version: int, by: str, **how: Any) -> dict[str, Any]:
        step = Step(api, version, by, how)
        request = message(self.side, step)
        answer = self.side.ask(request, version, by)
        learn(self.side, step, request, answer)
        found: dict[str, Any] = form(answer, self.side)
        return found

    def right(self, api: str, version: int, by: str, **how: Any) -> dict[str, Any]:
        """An answer without an error."""
        found = self.ask(api, version, by, **how)
        assert set(codes(found)) <= {"NONE"}, (api, how, found)
        return found

    # -- the classic group: one dynamic member, one static ---------------------------------------------------

    def found_classic_group(self) -> None:
        assert self.join("m0", None)["error_code"] == "MEMBER_ID_REQUIRED"
        assert self.join("m0", None)["error_code"] == "NONE"
        self.right("sync", 5, "m0", member="m0", group=CLASSIC, who="known", generation="now", gives="all")
        # the static member waits for the other to join again
        side, how = self.side, self.joining("m1", "i1")
        request = message(side, Step("join", 9, "m1", how))
        ticket = side.connection("m1").post(request, 9)
        until(lambda: self.beat("m0") == "REBALANCE_IN_PROGRESS", 20)
        assert self.join("m0", None)["error_code"] == "NONE"
        answer = side.connection("m1").collect(ticket)
        assert answer.error_code == 0
        learn(side, Step("join", 9, "m1", how), request, answer)
        leader = "m0" if self.side.member("m0").members else "m1"
        self.sync_all(leader)

    def sync_all(self, leader: str) -> None:
        for name in (leader, *({"m0", "m1"} - {leader})):
            instance = "i1" if name == "m1" else None
            how = {"member": name, "group": CLASSIC, "who": "known", "generation": "now", "gives": "all"}
            self.right("sync", 5, name, instance=instance, **how)

    def joining(self, name: str, instance: str | None) -> dict[str, Any]:
        return {
            "member": name,
            "group": CLASSIC,
            "who": "known",
            "protocols": ["range"],
            "kind": "consumer",
            "session_ms": 300_000,
            "topics": ["flights"],
            "instance": instance,
        }

    def join(self, name: str, instance: str | None) -> dict[str, Any]:
        return self.ask("join", 9, name, **self.joining(name, instance))

    def beat(self, name: str) -> str:
        instance = "i1" if name == "m1" else None
        how = {"member": name, "group": CLASSIC, "who": "known", "generation": "now", "instance": instance}
        return str(self.ask("beat", 4, name, **how)["error_code"])

    # -- the group of KIP-848: by name, by pattern, static ---------------------------------------------------

    def found_consumer_group(self) -> None:
        self.arrive("c0", topics=["flights", "planes"])
        self.arrive("c1", topics=None, regex=PATTERN, instance="i7")
        self.settle()

    def arrive(self, name: str, **how: Any) -> None:
        self.right(
            "heartbeat",
            1,
            name,
            member=name,
            group=CONSUMER,
            epoch="0",
            owned="empty",
            timeout_ms=300_000,
            **how,
        )

    def live(self, name: str) -> dict[str, Any]:
        instance = "i7" if name == "c1" else None
        return self.right(
            "heartbeat", 1, name, member=name, group=CONSUMER, epoch="now", owned="told", instance=instance
        )

    def settle(self) -> None:
        """Heartbeats until both own what they shall."""

        def stable() -> bool:
            for name in ("c0", "c1"):
                self.live(name)
            described = self.right("describe consumer groups", 1, "reader", groups=[CONSUMER])
            return bool(described["groups"][0]["group_state"] == "Stable" and self.side.member("c1").owned)

        until(stable, 30)

    # -- positions and transactions ----------------------------------------------------------------------

    def commit(self, offset: int) -> None:
        def said(group: str, name: str, version: int, **how: Any) -> None:
            who = {"member": name, "who": "known", "generation": "now"}
            self.right("commit", version, name, group=group, topics={"flights": {0: offset}}, **who, **how)

        said(CLASSIC, "m0", 9)
        said(CLASSIC, "m1", 8, instance="i1")
        said(CONSUMER, "c0", 9)
        self.right("commit", 8, "reader", group=SIMPLE, topics={"weather": {0: offset}})

    def transact(self, name: str, id: str, offset: int, commit: bool | None) -> None:
        self.right("init", 5, name, id=id, timeout_ms=600_000)
        self.right(
            "produce", 12, name, id=id, who="now", topic="flights", partition=1, sequence="next", count=3
        )
        how = {"id": id, "who": "now", "group": CLASSIC, "topic": "planes", "offsets": {0: offset}}
        self.right("keep offsets", 5, name, **how)
        if commit is not None:
            self.end(name, id, commit)

    def end(self, name: str, id: str, commit: bool) -> None:
        self.right("end", 5, name, id=id, who="now", commit=commit)
        until(lambda: "Prepare" not in self.transaction(id), 20)

    def transaction(self, id: str) -> str:
        states = self.right("describe transactions", 0, "reader", ids=[id])["transaction_states"]
        return str(states[0]["transaction_state"])

    def positions(self, group: str, stable: bool = False) -> Any:
        return self.ask(
            "fetch offsets", 8, "reader", groups=[{"group": group, "topics": None}], stable=stable
        )

    def sight(self) -> dict[str, Any]:
        """All that anybody sees."""
        kinds = {CLASSIC: "describe groups", CONSUMER: "describe consumer groups"}
        seen = {
            f"{group} is": self.right(api, 6 if api == "describe groups" else 1, "reader", groups=[group])
            for group, api in kinds.items()
        }
        for group in (CLASSIC, CONSUMER, SIMPLE):
            seen[f"{group} stands"] = self.positions(group)
            seen[f"{group} stands for sure"] = self.positions(group, stable=True)
        seen["groups"] = self.right("list groups", 5, "reader")
        seen["transactions"] = self.right("describe transactions", 0, "reader", ids=["x0", "x1", "x2"])
        producers = self.right("describe producers", 0, "reader", topics={"flights": [0, 1]})
        return {**seen, "producers": producers}

    def go_on(self) -> None:
        """Nobody has to begin anew: every member's next words are welcome."""
        for name in ("m0", "m1"):
            assert self.beat(name) == "NONE", name
        for name in ("c0", "c1"):
            before = self.side.member(name).epoch
            answer = self.live(name)
            assert (answer["member_epoch"], answer["assignment"]) == (before, None)

    def change_places(self) -> None:
        """Whoever coordinates writes groups of its own: another subscription, and a static member's next id."""
        before = self.side.member("c0").epoch
        self.arrive("c0", topics=["flights"])
        self.settle()
        assert self.side.member("c0").epoch != before
        self.side.member("m1").id = ""
        assert self.join("m1", "i1")["error_code"] == "NONE" and self.beat("m0") == "NONE"

    def move(self) -> None:
        for by in list(self.side.connections):
            self.side.forget(by)
        coordinators_answer(self.side)


@contextmanager
def ours_on(node: NodeProcess) -> Iterator[None]:
    node.start()
    yield
    assert node.stop() == 0, node.log.read_text()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_groups_and_transactions_go_to_apache_kafka_and_come_back(apache: Path, tmp_path: Path) -> None:
    node = NodeProcess(tmp_path / "node", **SETTINGS)
    side = Side("both", node.port, {})
    try:
        with ours_on(node):
            topics = [
                CreatableTopic(name=n, num_partitions=c, replication_factor=1) for n, c in TOPICS.items()
            ]
            side.ask(CreateTopicsRequest(topics=topics, timeout_ms=20_000))
            coordinators_answer(side)
            side.shared = {name: id for name, id in side.topic_ids().items() if name in TOPICS}
            clients = Travellers(side)
            clients.found_classic_group()
            clients.found_consumer_group()
            clients.commit(7)
            clients.transact("p0", "x0", 11, commit=True)
            clients.transact("p1", "x1", 12, commit=False)
            clients.transact("p2", "x2", 13, commit=None)
            here = clients.sight()
        assert clients.side.member("c0").owned and clients.side.member("c1").owned
        with apache_kafka_on(node, apache):
            clients.move()
            assert clients.sight() == here
            clients.go_on()
            assert clients.sight() == here
            clients.commit(8)
            clients.change_places()
            clients.end("p2", "x2", commit=True)
            clients.transact("p0", "x0", 14, commit=None)
            there = clients.sight()
            assert there["g0 stands for sure"] != here["g0 stands for sure"]
        with ours_on(node):
            clients.move()
            assert clients.sight() == there
            clients.go_on()
            assert clients.sight() == there
            clients.end("p0", "x0", commit=False)
            clients.commit(9)
            # the static members come back under other ids, and keep their places
            clients.right(
                "heartbeat", 1, "c1", member="c1", group=CONSUMER, epoch="-2", owned="none", instance="i7"
            )
            clients.arrive("c1", topics=None, regex=PATTERN, instance="i7")
            clients.settle()
            side.member("m1").id = ""
            assert clients.join("m1", "i1")["error_code"] == "NONE" and clients.beat("m0") == "NONE"
            last = clients.sight()
        with apache_kafka_on(node, apache):
            clients.move()
            assert clients.sight() == last
            clients.go_on()
    finally:
        node.discard()
        side.close()
