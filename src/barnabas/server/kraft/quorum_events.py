"""What the core of the quorum reports to an operator, as events; most of them are for close inspection."""

from __future__ import annotations

import logging
from typing import Any, Final

from barnabas.raft.effects import Event
from barnabas.server.observe import events

__all__ = ["tell"]

RECOVERED = events.register("quorum.recovered", logging.INFO, "the metadata log is open")
ACTIVE = events.register("quorum.active", logging.INFO, "this node is the active controller")
LEADER = events.register("quorum.leader", logging.INFO, "the quorum has another leader")
WAITS = events.register("quorum.waits", logging.INFO, "this node looks for the quorum's leader")
VOTERS = events.register("quorum.voters", logging.INFO, "the set of voters changed")
SNAPSHOT = events.register("quorum.snapshot", logging.INFO, "a metadata snapshot was written")
CLEANED = events.register("quorum.cleaned", logging.INFO, "metadata that a snapshot covers were deleted")
FAILED = events.register("quorum.failed", logging.ERROR, "the quorum cannot continue; this node stops")
CUT = events.register("quorum.cut", logging.WARNING, "the torn end of the metadata log was truncated")
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
