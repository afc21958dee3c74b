"""A broker that does not answer: when another one is asked about it, and what its answer means.  No I/O, no clock.

A request may take long at a broker that is well: a fetch waits for records, a group for its members.  A broker
that hangs, or is cut off, takes as long.  The cluster knows which it is, for the controller fences a broker that
nobody hears.  So after SILENCE without a byte the client asks another broker, over another connection, for those
that live.  If the silent one is no longer among them, its leaderships and groups are elsewhere: the connection is
closed, and what waits for an answer is repeated where repeating is allowed.
"""

from __future__ import annotations

from barnabas.client.connection import RequestTimedOut

__all__ = ["CONNECT_S", "SILENCE", "WITNESS_S", "counted_out", "dial_limits", "patience"]

CONNECT_S = 10.0
"""Seconds that connecting may take, with its negotiation and login."""

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
