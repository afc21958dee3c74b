"""What a decision is and what follows from it: the rules of exactly once, without a socket.

    planned -- tasks prepare --> prepared -- the driver decides --> decided -- commits --> ended

A decision is one record that names the transactions of a micro-batch.  It is the only point of no return:
before it everything is aborted and written again, after it everything it names is committed, by whoever comes.
A task may have run twice (speculation, a worker that died): its other transaction is named by no decision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import NamedTuple

from barnabas.client.producing.transaction_machine import ProducerEpoch
from barnabas.errors import BarnabasError

__all__ = ["Claim", "Decision", "Done", "decision_of", "from_bytes", "is_written", "strays", "to_bytes"]

_VERSION = 1


class Decision(NamedTuple):
    """The transactions of a micro-batch that count.  `ended`: all of them are committed."""

    batch: int
    transactions: tuple[ProducerEpoch, ...]
    ended: bool = False


class Claim(NamedTuple):
    """The driver of one micro-batch: who may decide, and what was decided when it began (-1: nothing)."""

    driver: ProducerEpoch
    decided: int


class Done(NamedTuple):
    """What a task has done: its transaction (None: it had no rows), or nothing since its batch is decided.

    `driver` planned it, and is the only one that may decide about it.  `kept_s`: how long the brokers keep it
    prepared, where they refused to keep it until it is ended (None: they did not, or were not asked to).
    """

    driver: ProducerEpoch | None
    batch: int
    prepared: ProducerEpoch | None
    rows: int
    skipped: bool = False
    kept_s: float | None = None


def is_written(claim: Claim, batch: int) -> bool:
    """Return whether a micro-batch was decided by an earlier run: its tasks write nothing.

    Spark repeats its newest micro-batch only.  Raises BarnabasError for an older one: the checkpoint was set back,
    so Spark plans this micro-batch with other rows, and those would be left out without a word.
    """
    if claim.decided > batch:
        raise BarnabasError(
            f"this is micro-batch {batch}, and the sink has written micro-batches up to {claim.decided}: "
            "the checkpoint is older than what was written, or another one",
            next_step="bring the newest checkpoint back; or begin with a new checkpoint (and a new sinkId, where "
            "one is given), which writes again what was written since",
        )
    return claim.decided == batch


def decision_of(batch: int, tasks: Iterable[Done]) -> Decision | None:
    """The decision for a micro-batch whose tasks are done; None: an earlier run has decided it.

    Raises BarnabasError when tasks do not agree whether it was decided: then nothing may be decided.
    """
    done = list(tasks)
    foreign = [task.batch for task in done if task.batch != batch]
    if foreign:
        raise BarnabasError(
            f"a task of micro-batch {foreign[0]} was handed in with micro-batch {batch}",
            next_step="start the query again: it goes on with this micro-batch",
        )
    skipped = {task.skipped for task in done}
    if len(skipped) > 1 or len({task.driver for task in done}) > 1:
        raise BarnabasError(
            f"the tasks of micro-batch {batch} were planned by two drivers",
            next_step="start the query again; if two runs share its checkpoint, stop one of them",
        )
    if skipped == {True}:
        return None
    return Decision(batch, tuple(task.prepared for task in done if task.prepared is not None))


def strays(open_ids: Iterable[str], prefix: str, driver: str) -> list[str]:
    """Transactional ids of this sink whose transaction is open once the last decision is carried out.

    No decision names them: what one names is committed by then.  To be aborted.
    """
    return sorted(id_ for id_ in set(open_ids) if id_.startswith(prefix) and id_ != driver)


def to_bytes(decision: Decision) -> bytes:
    """The value of a decision's record (JSON)."""
    rows = [[one.transactional_id, one.producer_id, one.epoch, one.level] for one in decision.transactions]
    said = {"version": _VERSION, "batch": decision.batch, "ended": decision.ended, "transactions": rows}
    return json.dumps(said, separators=(",", ":")).encode()


def from_bytes(value: bytes) -> Decision:
    """Raises BarnabasError where it was not written by this sink, or by a later release."""
    try:
        said = json.loads(value)
        if said["version"] != _VERSION:
            raise ValueError(f"version {said['version']}")
        transactions = tuple(
            ProducerEpoch(str(id_), int(producer), int(epoch), int(level))
            for id_, producer, epoch, level in said["transactions"]
        )
        return Decision(int(said["batch"]), transactions, bool(said["ended"]))
    except (ValueError, KeyError, TypeError) as error:
        raise BarnabasError(
            f"a decision of the sink cannot be read: {error}: {value[:200]!r}",
            next_step="use the release that wrote it, or a new checkpoint",
        ) from error
