"""A broker without news: when another one is asked about it, and what its answer means.  No I/O, no clock.

A request may take long at a broker that is well: a fetch waits for records, a group for its members.  A broker
that hangs, or is cut off, takes as long.  The cluster knows which it is, for the controller fences a broker that
nobody hears.  So after SILENCE without a byte the client asks another broker, over another connection, for those
that live.  If the silent one is no longer among them, its leaderships and groups are elsewhere: the connection is
closed, and what waits for an answer is repeated where repeating is allowed.

A leader that is cut off from the other brokers but not from the client answers fetches in time, with nothing new.
So another broker is asked about a position that stands still, too: seldom, for most of them are at the end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from barnabas.client.connection import RequestTimedOut
from barnabas.model import Offset, TopicPartition

__all__ = ["CONNECT_S", "DIAL_S", "SILENCE", "WITNESS_S", "Resting", "counted_out", "dial_limits", "patience"]

CONNECT_S = 10.0
"""Seconds that connecting may take, with its negotiation and login."""
DIAL_S = 5.0
"""The same for a node beside the brokers, a controller."""

SILENCE = 2.0
"""Seconds without a byte after which another broker is asked."""
_AGAIN = 1.0
_OFTEN = 8
_SELDOM = 4.0
WITNESS_S = 1.0
"""Seconds that connecting to another broker, and its answer, may take."""


def patience(looks: int) -> float:
    """Return the seconds to wait for a byte before another broker is asked, after so many such looks."""
    if looks == 0:
        return SILENCE
    return _AGAIN if looks < _OFTEN else _SELDOM


def dial_limits(addresses: int, limit: float) -> tuple[float, ...]:
    """Return the seconds for each round of connecting where any of so many brokers will do.

    One of several that is silent is left for the next; where all are, the second round gives each `limit`.
    """
    return (limit,) if addresses == 1 or limit <= SILENCE else (SILENCE, limit)


def counted_out(address: str) -> RequestTimedOut:
    """Return the error of a request to a broker that is silent, and that the others count out."""
    return RequestTimedOut(
        f"{address} does not answer, and the other brokers count it out",
        address=address,
        next_step="see that node's log, and `barnabas brokers list`; the client goes on with the others",
    )


class _Still(NamedTuple):
    offset: Offset
    since: float
    look_at: float


class Resting:
    """`Resting(300.0).due(positions, now)`: the positions about which another broker than the leader is asked now.

    Each is due when it has stood still for SILENCE, for twice, four times as long and so on, in the end once in
    `max_age` seconds.
    """

    def __init__(self, max_age: float) -> None:
        self._max_age = max_age
        self._known: dict[TopicPartition, _Still] = {}
        self._look_at = 0.0

    def __repr__(self) -> str:
        return f"<Resting {len(self._known)} positions>"

    def due(self, positions: Mapping[TopicPartition, Offset], now: float) -> list[TopicPartition]:
        """Take the next offset to read of each partition; `now` in monotonic seconds."""
        if now < self._look_at:  # a reader of many partitions comes here after each answer
            return []
        self._look_at = now + SILENCE / 8
        found: list[TopicPartition] = []
        known: dict[TopicPartition, _Still] = {}
        for target, offset in positions.items():
            still = self._known.get(target)
            if still is None or still.offset != offset:
                still = _Still(offset, now, now + SILENCE)
            elif now >= still.look_at:
                found.append(target)
                still = still._replace(look_at=now + min(now - still.since, self._max_age))
            known[target] = still
        self._known = known
        return found
