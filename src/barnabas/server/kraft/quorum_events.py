"""What the core of the quorum reports to an operator, as events; most of them are for close inspection."""

from __future__ import annotations

import logging
from typing import Any, Final

from barnabas.raft.effects import Event
from barnabas.server.observe import events

__all__ = ["tell"]

STEP = events.register("quorum.step", logging.DEBUG, "the quorum reports an internal step")
REJECTED = events.register(
    "quorum.snapshot-rejected", logging.WARNING, "a downloaded snapshot cannot be read; it is asked for again"
)
UNREADABLE = events.register(
    "quorum.snapshot-unreadable",
    logging.ERROR,
    "no download can be read: check the leader's disk, and this node's",
)
STALE = events.register(
    "quorum.incarnation-refused",
    logging.WARNING,
    "a node speaks for a quorum that has since been formed again by force",
)
FOREIGN = events.register(
    "quorum.incarnation-foreign", logging.WARNING, "a node with records of the old quorum was refused"
)
SUPERSEDED = events.register(
    "quorum.incarnation-over", logging.WARNING, "the quorum was formed again by force, without this node"
)
SECOND = events.register(
    "quorum.second-quorum",
    logging.ERROR,
    "a node with this cluster's id belongs to another quorum; this node ignores it",
)
UNBELIEVABLE = events.register(
    "quorum.incarnation-unbelievable", logging.WARNING, "a node names a quorum generation that is impossible"
)

_LOUD: Final = {
    "raft.snapshot.rejected": REJECTED,
    "raft.snapshot.unreadable": UNREADABLE,
    "raft.incarnation.refused": STALE,
    "raft.incarnation.foreign": FOREIGN,
    "raft.incarnation.superseded": SUPERSEDED,
    "raft.incarnation.unbelievable": UNBELIEVABLE,
    "raft.stranger": SECOND,
}


def tell(event: Event) -> None:
    """Write it down."""
    loud = _LOUD.get(event.name)
    if loud is not None:
        said: dict[str, Any] = dict(event.fields)
        events.emit(loud, **said)
        return
    fields = " ".join(f"{name}={value}" for name, value in event.fields)
    events.emit(STEP, what=event.name, fields=fields)
