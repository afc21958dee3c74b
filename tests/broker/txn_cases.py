"""Sequences of requests about transactions, most of them wrong, whose answers we know from an Apache Kafka 4.3.1.

`txn_answers.json` holds what it answered.  To record it again, with a fresh broker of Kafka's at HOST:PORT:

    python -m tests.broker.txn_cases HOST:PORT > tests/broker/txn_answers.json

A sequence has a transactional id of its own.  A step names the producer by what it last heard from the
coordinator ("now"), by what it heard before that ("before"), or is wrong on purpose.  After each step all markers
are written: what is answered while they are not depends on the moment.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.transactions import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
    DescribeTransactionsRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

Step = tuple[str, int, dict[str, Any]]
"""What is asked, in which version, and how."""
Ask = Callable[[Message, int], Any]

PRODUCERS = ("now", "before", "next epoch", "another id", "nobody")
PARTITIONS = 4
LAST_EPOCH = 32766


def random_sequences(count: int, steps: int) -> Iterator[tuple[str, list[Step]]]:
    """As a client might stumble; most steps come from the producer that is the current one."""
    for number in range(count):
        rng = random.Random(number)
        yield f"at random {number}", [("init", rng.randrange(6), {}), *(_step(rng) for _ in range(steps))]


def _step(rng: random.Random) -> Step:
    who = rng.choices(PRODUCERS, (14, 4, 1, 1, 1))[0]
    kind = rng.choices(
        ("init", "go on", "add", "verify", "offsets", "end", "describe"), (2, 2, 6, 3, 2, 10, 1)
    )[0]
    if kind == "init":
        return kind, rng.randrange(6), {}
    if kind == "go on":
        return "init", rng.randrange(3, 6), {"who": who}
    if kind == "add":
        return kind, rng.randrange(6), {"who": who, "partitions": [rng.randrange(PARTITIONS)]}
    if kind == "verify":
        return kind, rng.randrange(4, 6), {"who": who, "partitions": [rng.randrange(PARTITIONS)]}
    if kind == "offsets":
        return kind, rng.randrange(5), {"who": who}
    if kind == "end":
        return kind, rng.choice((0, 1, 2, 3, 4, 5, 5, 5, 5)), {"who": who, "commit": rng.random() < 0.6}
    return kind, 0, {}


def written_sequences() -> Iterator[tuple[str, list[Step]]]:
    """What chance would not find."""
    now: dict[str, Any] = {"who": "now"}
    begin: list[Step] = [("init", 5, {}), ("add", 3, {**now, "partitions": [0, 1]})]
    for timeout_ms in (0, -1, 1, 900_000, 900_001):
        yield f"timeout {timeout_ms}", [("init", 5, {"timeout_ms": timeout_ms}), ("describe", 0, {})]
    yield (
        "half a producer",
        [
            ("init", 5, {"given": (7, -1)}),
            ("init", 5, {"given": (-1, 3)}),
            ("init", 5, {"given": (7, 3)}),
            ("init", 5, {"given": (7, 3)}),
        ],
    )
    nameless = {"id": "", "who": "nobody", "partitions": [0]}
    for version in (3, 5):
        yield (
            f"no name, version {version}",
            [
                ("init", version, {"id": ""}),
                ("add", version, nameless),
                ("offsets", min(version, 4), nameless),
                ("end", version, {**nameless, "commit": True}),
                ("describe", 0, {"id": ""}),
            ],
        )
        yield (
            f"unknown, version {version}",
            [
                ("add", version, {"who": "nobody", "partitions": [0]}),
                ("end", version, {"who": "nobody", "commit": True}),
                ("offsets", min(version, 4), {"who": "nobody"}),
                ("describe", 0, {}),
            ],
        )
        yield (
            f"wrong partitions, version {version}",
            [
                ("init", 5, {}),
                ("add", version, {**now, "partitions": [0, 99]}),
                ("add", version, {**now, "partitions": [0], "topic": "nowhere"}),
                ("add", version, {**now, "partitions": [0], "topic": OFFSETS_TOPIC}),
                ("add", version, {**now, "partitions": [0], "topic": TRANSACTIONS_TOPIC}),
                ("add", version, {**now, "partitions": []}),
                ("describe", 0, {}),
            ],
        )
        for commit in (True, False):
            yield (
                f"end {commit} without a partition, version {version}",
                [
                    ("init", 5, {}),
                    ("end", version, {**now, "commit": commit}),
                    ("describe", 0, {}),
                    ("end", version, {**now, "commit": not commit}),
                    ("describe", 0, {}),
                ],
            )
            for second in (3, 5):
                for repeated in (True, False):
                    yield (
                        f"end {commit} {version}, end {repeated} {second}",
                        [
                            *begin,
                            ("describe", 0, {}),
                            ("end", version, {**now, "commit": commit}),
                            ("end", second, {"who": "before", "commit": repeated}),
                            ("end", second, {**now, "commit": repeated}),
                            ("describe", 0, {}),
                        ],
                    )
    yield (
        "a new producer over an open transaction",
        [*begin, ("init", 5, {}), ("init", 5, {}), ("describe", 0, {})],
    )
    for given in (False, True):
        how = now if given else {}
        yield (
            f"used up, {given}",
            [
                ("init", 5, {}),
                ("use up", 0, {}),
                ("init", 5, how),
                ("init", 5, {"who": "before"}),
                ("init", 5, how),
                ("describe", 0, {}),
            ],
        )
    for commit in (True, False):
        yield (
            f"used up, end {commit}",
            [
                ("init", 5, {}),
                ("use up", 0, {}),
                ("add", 5, {**now, "partitions": [0]}),
                ("end", 5, {**now, "commit": commit}),
                ("end", 5, {"who": "before", "commit": commit}),
                ("end", 5, {"who": "before", "commit": not commit}),
                ("describe", 0, {}),
                ("add", 5, {**now, "partitions": [0]}),
                ("end", 5, {**now, "commit": commit}),
            ],
        )
    yield (
        "used up, fenced",
        [
            ("init", 5, {}),
            ("use up", 0, {}),
            ("add", 5, {**now, "partitions": [0]}),
            ("init", 5, {}),
            ("describe", 0, {}),
            ("init", 5, {}),
            ("describe", 0, {}),
        ],
    )


class Sequence:
    """One sequence at work: `ask` sends a request, `settle` returns when its id has nothing to wait for."""

    def __init__(
        self, name: str, ask: Ask, settle: Callable[[str], None], use_up: Callable[[str], int]
    ) -> None:
        self.id = f"txn {name}"
        self.ask, self.settle, self.use_up = ask, settle, use_up
        self.now = self.before = (4711, 0)
        self.names = {-1: "none"}

    def run(self, steps: list[Step]) -> list[str]:
        """The answer to each step, in words."""
        return [f"{kind}: {self._take(kind, version, how)}" for kind, version, how in steps]

    def _take(self, kind: str, version: int, how: dict[str, Any]) -> str:
        id_ = how.get("id", self.id)
        if kind == "use up":
            self.before, self.now = self.now, (self.now[0], self.use_up(id_))
            return str(self.now[1])
        request = getattr(self, "_" + kind)(id_, version, how)
        answer = self.ask(request, version)
        if id_:
            self.settle(id_)
        if kind == "describe":
            return self._described(answer)
        if kind in ("add", "verify"):
            topics = answer.results_by_topic_v3_and_below
            if version >= 4:
                topics = answer.results_by_transaction[0].topic_results
            codes = {
                f"{topic.name} {one.partition_index}": ErrorCode(one.partition_error_code).name
                for topic in topics
                for one in topic.results_by_partition
            }
            return " ".join(f"{place} {code}" for place, code in sorted(codes.items()))
        error = ErrorCode(answer.error_code)
        if kind == "offsets":
            return error.name
        if not error and answer.producer_id != -1 and (answer.producer_id, answer.producer_epoch) != self.now:
            self.before, self.now = self.now, (answer.producer_id, answer.producer_epoch)
        return f"{error.name} {self._called(answer.producer_id)} {answer.producer_epoch}"

    def _called(self, producer_id: int) -> str:
        return self.names.setdefault(producer_id, f"producer {len(self.names)}")

    def _who(self, how: dict[str, Any]) -> tuple[int, int]:
        return {
            "now": self.now,
            "before": self.before,
            "next epoch": (self.now[0], min(self.now[1] + 1, LAST_EPOCH)),
            "another id": (self.now[0] + 100_000, self.now[1]),
            "nobody": (100_000, 0),
        }[how["who"]]

    def _init(self, id_: str, version: int, how: dict[str, Any]) -> Message:
        given = self._who(how) if "who" in how else how.get("given", (-1, -1))
        fields = {"producer_id": given[0], "producer_epoch": given[1]} if version >= 3 else {}
        timeout_ms = how.get("timeout_ms", 60_000)
        return InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=timeout_ms, **fields)

    def _add(self, id_: str, version: int, how: dict[str, Any], *, verify: bool = False) -> Message:
        producer_id, epoch = self._who(how)
        topics = [AddPartitionsToTxnTopic(name=how.get("topic", "t"), partitions=how["partitions"])]
        if version < 4:
            return AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=id_,
                v3_and_below_producer_id=producer_id,
                v3_and_below_producer_epoch=epoch,
                v3_and_below_topics=topics,
            )
        one = AddPartitionsToTxnTransaction(
            transactional_id=id_,
            producer_id=producer_id,
            producer_epoch=epoch,
            verify_only=verify,
            topics=topics,
        )
        return AddPartitionsToTxnRequest(transactions=[one])

    def _verify(self, id_: str, version: int, how: dict[str, Any]) -> Message:
        return self._add(id_, version, how, verify=True)

    def _offsets(self, id_: str, version: int, how: dict[str, Any]) -> Message:
        producer_id, epoch = self._who(how)
        return AddOffsetsToTxnRequest(
            transactional_id=id_, producer_id=producer_id, producer_epoch=epoch, group_id="g"
        )

    def _end(self, id_: str, version: int, how: dict[str, Any]) -> Message:
        producer_id, epoch = self._who(how)
        return EndTxnRequest(
            transactional_id=id_, producer_id=producer_id, producer_epoch=epoch, committed=how["commit"]
        )

    def _describe(self, id_: str, version: int, how: dict[str, Any]) -> Message:
        return DescribeTransactionsRequest(transactional_ids=[id_])

    def _described(self, answer: Any) -> str:
        [state] = answer.transaction_states
        topics = sorted(
            f"{'offsets' if topic.topic == OFFSETS_TOPIC else f'{topic.topic} {index}'}"
            for topic in state.topics
            for index in topic.partitions
        )
        began = "began" if state.transaction_start_time_ms > 0 else str(state.transaction_start_time_ms)
        who = self._called(state.producer_id) if state.transaction_state else "none"
        return (
            f"{ErrorCode(state.error_code).name} {state.transaction_state} {state.transaction_timeout_ms} ms "
            f"{began} {who} {state.producer_epoch} {' '.join(topics)}"
        ).strip()


def sequences() -> Iterator[tuple[str, list[Step]]]:
    yield from written_sequences()
    yield from random_sequences(150, 10)


def record(address: str) -> dict[str, list[str]]:
    """What a broker at `address` answers."""
    from barnabas.client.admin.admin import Admin
    from barnabas.client.blocking import BlockingConnection
    from barnabas.wire.schemas.groups import FindCoordinatorRequest

    with Admin(address) as admin:
        admin.create_topic("t", partitions=PARTITIONS)
    host, _, port = address.rpartition(":")
    connection = BlockingConnection(host, int(port))
    for kind in (0, 1):
        connection.request(FindCoordinatorRequest(key_type=kind, coordinator_keys=["g"]), 4)
    time.sleep(5)

    def state(id_: str) -> str:
        answer = connection.request(DescribeTransactionsRequest(transactional_ids=[id_]), 0)
        found: str = answer.transaction_states[0].transaction_state
        return found

    def settle(id_: str) -> None:
        while state(id_).startswith("Prepare"):
            time.sleep(0.005)
        time.sleep(0.005)

    def use_up(id_: str) -> int:
        while True:
            answer = connection.request(
                InitProducerIdRequest(transactional_id=id_, transaction_timeout_ms=60_000), 5
            )
            if answer.producer_epoch == LAST_EPOCH:
                return LAST_EPOCH

    def ask(request: Message, version: int) -> Any:
        """Once more where the broker waits for a block of producer ids."""
        while True:
            answer = connection.request(request, version)
            if getattr(answer, "error_code", 0) != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                return answer
            time.sleep(0.1)

    found = {}
    for name, steps in sequences():
        found[name] = Sequence(name, ask, settle, use_up).run(steps)
    connection.close()
    return found


if __name__ == "__main__":
    print(json.dumps(record(sys.argv[1]), indent=1))
