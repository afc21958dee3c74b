"""GroupsCommand, ConsumerGroupCommand, TransactionsCommand, one after the other: a group, an open transaction."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterator
from typing import Any

from tests.suites.apps.java import Program
from tests.suites.apps.stage import Outcome, Stage

TOPIC, GROUP, TRANSACTION = "watched", "watchers", "left-open"
TOOLS = "org.apache.kafka.tools."
GROUPS = ("consumer.group.ConsumerGroupCommand", "--timeout", "60000")
COMMANDS = (
    (("GroupsCommand", "--list"), GROUP),
    ((*GROUPS, "--list"), GROUP),
    ((*GROUPS, "--describe", "--group", GROUP), TOPIC),
    ((*GROUPS, "--describe", "--group", GROUP, "--state"), "Stable"),
    ((*GROUPS, "--describe", "--group", GROUP, "--members"), "watcher"),
    (("TransactionsCommand", "list"), TRANSACTION),
    (("TransactionsCommand", "describe", "--transactional-id", TRANSACTION), "Ongoing"),
    (("TransactionsCommand", "describe-producers", "--topic", TOPIC, "--partition", "0"), "ProducerId"),
    (("TransactionsCommand", "find-hanging", "--topic", TOPIC), "Topic"),
)
"""Each with a word that it prints."""


def run(stage: Stage) -> Outcome:
    stage.create(TOPIC, partitions=2)
    outcome = Outcome()
    runs, longest = 0, 0.0
    commands = itertools.cycle(COMMANDS)
    with _open_transaction(stage.bootstrap), _member(stage.bootstrap):
        for _ in stage.beats():
            words, printed = next(commands)
            place = len(words) if words[0] != "TransactionsCommand" else 1
            full = [*words[:place], "--bootstrap-server", stage.bootstrap, *words[place:]]
            began = time.monotonic()
            program = Program(stage.folder, f"command-{runs}", TOOLS + full[0], *full[1:], heap="128m")
            code = program.start().wait(180)
            longest = max(longest, time.monotonic() - began)
            runs += 1
            output = program.output.read_text()
            if code or printed not in output:
                outcome.wrong.append(f"{' '.join(words)}: {code} {output[-300:]} {program.last_words()}")
    outcome.seen.append(f"{runs} commands, the longest took {longest:.0f} s")
    return outcome


@contextlib.contextmanager
def _open_transaction(bootstrap: str) -> Iterator[None]:
    from confluent_kafka import Producer

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": TRANSACTION,
            "transaction.timeout.ms": 900_000,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(TOPIC, b"left open", partition=0)
    producer.flush(60)
    yield
    producer.abort_transaction(60)


@contextlib.contextmanager
def _member(bootstrap: str) -> Iterator[None]:
    from confluent_kafka import Consumer

    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": GROUP,
            "client.id": "watcher",
            "max.poll.interval.ms": 86_400_000,  # it only is a member: nobody polls while the commands run
            "log_level": 0,
        }
    )
    consumer.subscribe([TOPIC])
    deadline = time.monotonic() + 60
    while not consumer.assignment():
        assert time.monotonic() < deadline, "the group has no member"
        consumer.poll(0.5)
    consumer.commit(offsets=_beginning(consumer), asynchronous=False)
    yield
    consumer.close()


def _beginning(consumer: Any) -> list[Any]:
    places = consumer.assignment()
    for place in places:
        place.offset = 0
    return list(places)
