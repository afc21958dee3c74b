"""Which applications there are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.suites.apps import commands, connect, copier, performance, streams, verifiable
from tests.suites.apps.stage import Outcome, Stage


@dataclass(frozen=True)
class App:
    """One application, and what is done with it."""

    name: str
    title: str
    run: Callable[[Stage], Outcome]


APPS = (
    App(
        "copier",
        "TransactionalMessageCopier: two in one group, one abort in three, one of them killed every 25 s",
        copier.run,
    ),
    App(
        "streams",
        "Kafka Streams, `exactly_once_v2`, session of 10 s: copies, counts by key; killed once, restarted once",
        streams.run,
    ),
    App(
        "streams-45",
        "the same with Streams' default session of 45 s",
        partial(streams.run, session_ms=streams.DEFAULT_SESSION_MS),
    ),
    App(
        "connect-standalone",
        "`connect-standalone`: FileStreamSource and FileStreamSink",
        connect.standalone,
    ),
    App(
        "connect-distributed",
        "`connect-distributed`: the same with an exactly-once source; restarted once",
        connect.distributed,
    ),
    App(
        "verifiable",
        "VerifiableProducer, and VerifiableConsumer with `group.protocol=consumer`",
        verifiable.run,
    ),
    App("performance", "ProducerPerformance with transactions of 100 ms", performance.run),
    App(
        "commands",
        "GroupsCommand, ConsumerGroupCommand, TransactionsCommand, one after the other",
        commands.run,
    ),
)


def app(name: str) -> App:
    """The application of that name.  Raises KeyError."""
    for found in APPS:
        if found.name == name:
            return found
    raise KeyError(name)
