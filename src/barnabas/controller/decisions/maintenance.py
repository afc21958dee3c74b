"""What the active controller does by itself, from time to time: leaderships go back to the preferred replicas,
and delegation tokens that have ended are removed.

Every `leader.imbalance.check.interval.seconds` partitions return to their first replica if it is in sync
again.  First replicas are spread evenly over the brokers, so leaders are spread evenly too.  The controller
checks partitions without a leader every `unclean.leader.election.interval.ms`, and as soon as
`unclean.leader.election.enable` changes.  Where that setting allows it, a replica may lead that lacks
records.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable

from barnabas.config import Config
from barnabas.controller.decisions import elect_leaders as elections
from barnabas.controller.view import View
from barnabas.model import NO_NODE, Now
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import ConfigRecord

__all__ = ["Maintenance"]

_UNCLEAN = "unclean.leader.election.enable"


class Maintenance:
    """When the next elections are due, in monotonic seconds."""

    __slots__ = (
        "_balance_at",
        "_balance_every",
        "_tokens_at",
        "_tokens_every",
        "_unclean_at",
        "_unclean_every",
    )

    def __init__(self, config: Config, now: Now) -> None:
        self._balance_every: float = config.int("leader.imbalance.check.interval.seconds")
        self._unclean_every = config.int("unclean.leader.election.interval.ms") / 1000
        self._balance_at = now.mono + self._balance_every
        if not config.bool("auto.leader.rebalance.enable"):
            self._balance_at = float("inf")
        self._unclean_at = now.mono
        self._tokens_every = config.int("delegation.token.expiry.check.interval.ms") / 1000
        self._tokens_at = now.mono + self._tokens_every
        if not config.optional_str("delegation.token.secret.key"):
            self._tokens_at = float("inf")

    def __repr__(self) -> str:
        return f"<Maintenance balance={self._balance_at} unclean={self._unclean_at}>"

    def appended(self, records: Iterable[MetadataRecord], now: Now) -> None:
        """Look soon after the rules for leaders changed."""
        if any(isinstance(record, ConfigRecord) and record.name == _UNCLEAN for record in records):
            self._unclean_at = now.mono

    def due(self, now: Now) -> bool:
        """Whether it is time to look."""
        return now.mono >= min(self._balance_at, self._unclean_at, self._tokens_at)

    def records(self, view: View) -> Generator[None, None, list[MetadataRecord]]:
        """What is due, as much as fits into one batch; [] when nothing is."""
        mono = view.now.mono
        if mono >= self._tokens_at:
            from barnabas.controller.decisions.users.delegation_tokens import ended_tokens  # rarely needed

            self._tokens_at = mono + self._tokens_every
            if ended := ended_tokens(view):
                return ended
        if mono < self._balance_at and mono < self._unclean_at:
            return []
        if mono < self._balance_at and not _leaderless(view):
            self._unclean_at = mono + self._unclean_every
            return []
        if mono >= self._unclean_at:
            found = yield from elections.unclean_leaders(view)
            if len(found) < elections.MOST:
                self._unclean_at = mono + self._unclean_every
            if found:
                return found
        if mono < self._balance_at:
            return []
        found = yield from elections.preferred_leaders(view)
        if len(found) < elections.MOST:
            self._balance_at = mono + self._balance_every
        return found


def _leaderless(view: View) -> bool:
    return any(
        state.leader == NO_NODE for topic in view.image.topics.values() for state in topic.partitions.values()
    )
