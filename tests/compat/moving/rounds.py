"""One direction under traffic, and its row: what was lost, what was there twice, the longest gaps."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.chaos.traffic import Reader, Records, Writer, read_everything
from tests.compat.moving.anew import written_anew
from tests.compat.moving.clients import EACH, PROTOCOLS, Book, Group, Held, Ledger, Till, read_committed
from tests.compat.moving.nodes import HELD, PAID, PAID_PARTITIONS, Six
from tests.server.quorum_processes import eventually

from barnabas.sim.cluster.checker import check

__all__ = ["Known", "Row", "Traffic", "complaints"]

_PATIENCE_S = 180.0
PARTITIONS, RATE = 6, 100.0
"""Of the topic of each direction: its partitions, and its records a second, beside the transactions."""


class Row(NamedTuple):
    """One direction of one round.  A gap is the longest time without an acknowledgement, in milliseconds."""

    direction: str
    seconds: int
    records: int
    lost: int
    twice: int
    anew: int
    """Records that librdkafka wrote again under a new epoch of its producer, which no broker can prevent."""
    gap_ms: int
    """Of any partition."""
    transactions: int
    transactions_gap_ms: int
    """Between two commits."""
    back: int
    """Records that a group read again though it had committed a position beyond them."""
    anomalies: int
    """Whatever else the checker of histories finds: order, positions that a reader passed over."""
    failures: int
    """Transactions that the producer gave up, and began anew as another producer."""

    @property
    def whole(self) -> bool:
        return not (self.lost or self.twice or self.back or self.anomalies)


@dataclass
class Known:
    """What clients know from one direction to the next."""

    written: dict[str, Counter[int]] = field(default_factory=dict)
    """The values in the topic of each direction so far."""
    ledger: Ledger = field(default_factory=Ledger)
    held: list[int] = field(default_factory=list)
    books: dict[str, Book] = field(default_factory=lambda: {name: Book() for name in PROTOCOLS})

    @property
    def back(self) -> int:
        """How often a group read what it had committed."""
        return sum(len(book.back) for book in self.books.values())

    def behind(self) -> bool:
        """Whether a group has still to read what was committed."""
        return any(self.ledger.committed - book.seen.keys() for book in self.books.values())


class Traffic:
    """`with traffic.during("there"): ...`; then `row` says how it went."""

    def __init__(self, six: Six, known: Known) -> None:
        self._six, self._known = six, known
        self.row: Row | None = None

    @contextmanager
    def during(self, direction: str) -> Iterator[None]:
        """Let records, transactions and groups go on meanwhile, and three transactions be open; then count."""
        bootstrap, known, records = self._six.bootstrap, self._known, Records()
        topic = f"orders-{direction}"
        self._six.create(topic, PARTITIONS)
        writer = Writer(records, len(known.written) + 1, bootstrap, topic, PARTITIONS, RATE)
        reader = Reader(records, bootstrap, topic, PARTITIONS)
        till = Till(bootstrap, PAID, PAID_PARTITIONS, known.ledger)
        groups = [Group(bootstrap, PAID, name, book) for name, book in known.books.items()]
        for thread in (writer, reader, till, *groups):
            thread.start()
        try:
            self._groups_read()
            held = Held(bootstrap, HELD, direction, len(known.held))
            known.held += held.values
            began, paid, back = time.monotonic(), len(known.ledger.committed), known.back
            failed = len(known.ledger.failures)
            yield
            ended = time.monotonic()
            held.end()
        except BaseException:
            reader.end()
            for group in groups:
                group.end()
            raise
        finally:
            writer.end()
            till.end()
        paid = len(known.ledger.committed) - paid
        known.written[topic], anomalies = self._read(topic, records, writer, reader)
        eventually(lambda: not known.behind(), _PATIENCE_S, "the groups have all")
        for group in groups:
            group.end()
        self.row = Row(
            direction,
            round(ended - began),
            writer.sent,
            *self._counted(writer),
            round(1000 * records.gap(began, ended)),
            paid // EACH,
            round(1000 * known.ledger.gap(began, ended)),
            known.back - back,
            anomalies,
            len(known.ledger.failures) - failed,
        )

    def _groups_read(self) -> None:
        """Wait until both groups have read and committed; else raise TimeoutError with what is known of them."""
        known = self._known
        try:
            eventually(lambda: all(book.committed for book in known.books.values()), _PATIENCE_S)
        except (AssertionError, TimeoutError) as error:
            for line in (
                "transactions list",
                "groups list",
                *(f"groups describe books-{name}" for name in PROTOCOLS),
            ):
                with suppress(AssertionError):
                    self._six.typed(line)
            troubles = {name: (book.trouble, book.committed) for name, book in known.books.items()}
            raise TimeoutError(f"the groups did not read: {troubles}, {known.ledger}") from error

    def _read(self, topic: str, records: Records, writer: Writer, reader: Reader) -> tuple[Counter[int], int]:
        """Return what is in the topic of this direction, and how many anomalies its history has."""
        everything = read_everything(records, self._six.bootstrap, topic, PARTITIONS)
        values = Counter(value for part in everything.values() for value in part)
        eventually(lambda: reader.read >= sum(values.values()), _PATIENCE_S, "the reader has all")
        reader.end()
        verdict = check(records.history)
        print(f"{verdict}: {verdict.anomalies[:5]}")
        assert not writer.failures, writer.failures[:5]
        return values, sum(
            anomaly.kind != "duplicate" for anomaly in verdict.anomalies
        )  # those are counted below

    def _counted(self, writer: Writer) -> tuple[int, int, int]:
        """Return how many acknowledged records are lost, how many are there twice, and how many written anew.

        All that earlier directions left counts, too: it has to be there still.
        """
        bootstrap, known = self._six.bootstrap, self._known
        *earlier, (topic, written) = known.written.items()
        anew = written_anew(self._six, topic)
        paid, held = read_committed(bootstrap, PAID, PAID_PARTITIONS), read_committed(bootstrap, HELD, 1)
        due = known.ledger.committed
        lost = writer.sent - len(written) + len(due - paid.keys()) + len(set(known.held) - held.keys())
        twice = sum(many.total() - len(many) for many in (written, paid, held)) - anew
        for topic, values in earlier:
            still = read_committed(bootstrap, topic, PARTITIONS)
            lost, twice = lost + (values - still).total(), twice + (still - values).total()
        not_committed = paid.keys() - due - known.ledger.unknown, held.keys() - set(known.held)
        assert not any(not_committed), f"aborted, and yet there: {not_committed}"
        return lost, twice, anew


def complaints(six: Six) -> list[str]:
    """Return what the logs of all nodes that ever ran say that they should not."""
    words = (
        r"FATAL|fatal fault|Traceback",
        r"[Uu]nknown API key|Unsupported api key|\b10642\b",  # a request that Apache Kafka does not know
        r"number of partitions has changed",
    )
    wrong = re.compile("|".join(words))
    logs = [*six.folder.glob("*/server.log"), *six.folder.glob("*/node.log")]
    assert logs
    texts = {log.parent.name: log.read_text(errors="replace") for log in logs}
    return [
        f"{name}: {line}" for name, text in texts.items() for line in text.splitlines() if wrong.search(line)
    ]
