"""Sequences about transactions, most of them wrong, are answered as a real Apache Kafka 4.3.1 answered them.

Its answers lie in `txn_answers.json`; `txn_cases` says how they were recorded.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.broker.transacting import TransactionWorld
from tests.broker.txn_cases import LAST_EPOCH, Sequence, sequences
from tests.broker.txn_held_cases import sequences as held_sequences

from barnabas.broker.groups.consumer.patterns import compiled_pattern, work_to_match
from barnabas.broker.groups.placement import NO_PARTITION
from barnabas.broker.purgatory import Waiting
from barnabas.broker.transactions.answering import TransactionRequests
from barnabas.broker.transactions.describing import MOST_WORK
from barnabas.errors import ErrorCode
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, TopicPartition
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.transactions import AddOffsetsToTxnRequest, ListTransactionsRequest

HELD = json.loads((Path(__file__).parent / "txn_held_answers.json").read_text())
"""What was answered while markers could not be written; see `txn_held_cases`."""
ANSWERS = json.loads((Path(__file__).parent / "txn_answers.json").read_text())


class Requests:
    """Our coordinator, asked by messages."""

    def __init__(self) -> None:
        self.world = world = TransactionWorld()
        for topic in (OFFSETS_TOPIC, TRANSACTIONS_TOPIC):
            world.broker.image.leaders[TopicPartition(topic, 0)] = 1
        self.requests = TransactionRequests(world.transactions, lambda group: 0)

    def ask(self, request: Message, version: int) -> Any:
        context: Any = SimpleNamespace(version=version, client_id="c", client_host="h")
        now = self.world.now
        answer: Any
        match type(request).__name__:
            case "InitProducerIdRequest":
                answer = self.requests.init_producer_id(context, request, now)  # type: ignore[arg-type]
            case "AddPartitionsToTxnRequest":
                answer = self.requests.add_partitions(context, request, now)  # type: ignore[arg-type]
            case "AddOffsetsToTxnRequest":
                answer = self.requests.add_offsets(context, request, now)  # type: ignore[arg-type]
            case "EndTxnRequest":
                answer = self.requests.end(context, request, now)  # type: ignore[arg-type]
            case _:
                answer = self.requests.describe(context, request)  # type: ignore[arg-type]
        return answer.response if isinstance(answer, Waiting) else answer

    def settle(self, id_: str) -> None:
        self.world.mark()

    def use_up(self, id_: str) -> int:
        [owned] = self.world.transactions.log.all_owned()
        owned.ids[id_].current = owned.ids[id_].current._replace(epoch=LAST_EPOCH)
        return LAST_EPOCH


def test_transactions_are_listed_by_state_producer_age_and_pattern() -> None:
    requests, producers = Requests(), {}
    world = requests.world
    for name in ("flights-1", "flights-2", "trains"):
        producers[name] = world.init(name)
    world.add(producers["trains"], 0, id_="trains")
    world.run(5.0)

    def listed(version: int = 2, **filters: Any) -> list[str]:
        context: Any = SimpleNamespace(version=version)
        answer = requests.requests.list(context, ListTransactionsRequest(**filters), world.now)
        if answer.error_code:
            return [ErrorCode(answer.error_code).name]
        return sorted(state.transactional_id for state in answer.transaction_states)

    assert listed() == ["flights-1", "flights-2", "trains"]
    assert listed(state_filters=["Ongoing", "Nonsense"]) == ["trains"]
    assert listed(state_filters=["Nonsense"]) == []
    assert listed(producer_id_filters=[producers["flights-2"][0]]) == ["flights-2"]
    assert listed(state_filters=["Ongoing"], duration_filter=6000) == []
    assert listed(state_filters=["Ongoing"], duration_filter=4000) == ["trains"]
    assert listed(transactional_id_pattern="flights-.") == ["flights-1", "flights-2"]
    assert listed(transactional_id_pattern="flights") == []
    assert listed(transactional_id_pattern="(") == ["INVALID_REGULAR_EXPRESSION"]
    # what would keep the node from everything else for seconds
    assert listed(transactional_id_pattern="(.{0,30}){0,30}s") == ["trains"]
    world.init("x" * 10_000)
    assert listed(transactional_id_pattern="(.{0,30}){0,30}s") == ["INVALID_REGULAR_EXPRESSION"]
    assert listed(transactional_id_pattern="x*") == ["x" * 10_000]


def test_words_are_looked_for_among_many_ids_however_long_they_are() -> None:
    """A sum over all ids of all instructions for each character would be 60 million and more."""
    names = [f"payments-{number:05}" for number in range(1_900)]
    long = "p" * 3_000
    assert work_to_match(compiled_pattern(long), names) < 50_000
    assert work_to_match(compiled_pattern("|".join(names[:200])), names) < MOST_WORK
    assert work_to_match(compiled_pattern(rf"a\.b\-c|{long}"), names) < 100_000
    for wild in (f"{long}.*", f"({long})?", f"[a-z]{long}", f"{long}{{2}}", rf"\w{long}"):
        assert work_to_match(compiled_pattern(wild), names) > MOST_WORK, wild[-9:]


def test_there_are_sequences_enough() -> None:
    assert len(ANSWERS) == len(list(sequences())) >= 180


@pytest.mark.parametrize("half", (0, 1))
def test_every_answer_is_that_of_apache_kafka(half: int) -> None:
    requests = Requests()
    different = {}
    for name, steps in list(sequences())[half::2]:
        found = Sequence(name, requests.ask, requests.settle, requests.use_up).run(steps)
        if found != ANSWERS[name]:
            different[name] = next(
                (step, theirs, ours)
                for step, theirs, ours in zip(steps, ANSWERS[name], found, strict=True)
                if theirs != ours
            )
    assert different == {}


def test_every_answer_while_an_end_is_under_way_is_that_of_apache_kafka() -> None:
    requests = Requests()
    held = list(held_sequences())
    assert [name for name, _ in held] == list(HELD) and len(held) >= 14
    for name, steps in held:
        found = Sequence(name, requests.ask, lambda id_: None, requests.use_up).run(steps)
        for step, theirs, ours in zip(steps, HELD[name], found, strict=True):
            assert ours == theirs, (name, step)


def test_offsets_join_no_transaction_before_it_is_known_where_they_will_be() -> None:
    """Another broker may make their topic, with another count of partitions than this node would."""
    asked = Requests()
    asked.requests = TransactionRequests(asked.world.transactions, lambda group: NO_PARTITION)
    producer_id, epoch = asked.world.init()
    request = AddOffsetsToTxnRequest(
        transactional_id="t", producer_id=producer_id, producer_epoch=epoch, group_id="g"
    )
    assert asked.ask(request, 3).error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert asked.world.state() == "Empty"
