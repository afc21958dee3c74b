"""How the leader of a classic group shares out partitions, as Kafka's clients do: at once or in steps (KIP-429).

An eager assignor gives out everything, since nobody owns anything while it joins.  The cooperative one lets
members keep what they own as far as that is fair, and gives nobody what another one has to give up first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

__all__ = ["COOPERATIVE", "EAGER", "Claim", "share_out"]

EAGER, COOPERATIVE = "range", "cooperative-sticky"

Part = tuple[str, int]
"""A topic's name and a partition."""


class Claim(NamedTuple):
    """What a member says when it joins: what it subscribes to, owns, and in which generation it got that."""

    topics: Set[str]
    owned: Set[Part]
    generation: int


def share_out(
    claims: Mapping[str, Claim], counts: Mapping[str, int], assignor: str
) -> dict[str, Sequence[Part]]:
    """Who shall read from what; `counts`: how many partitions each topic has."""
    parts = [(topic, index) for topic in sorted(counts) for index in range(counts[topic])]
    owners = _owners(claims) if assignor == COOPERATIVE else {}
    shares: dict[str, list[Part]] = {member: [] for member in sorted(claims)}
    most = -(-len(parts) // max(1, len(claims)))
    free: list[Part] = []
    for part in parts:
        owner = owners.get(part)
        if owner is not None and part[0] in claims[owner].topics and len(shares[owner]) < most:
            shares[owner].append(part)
        else:
            free.append(part)
    for part in free:
        wanting = [member for member in shares if part[0] in claims[member].topics]
        if wanting:
            shares[min(wanting, key=lambda member: len(shares[member]))].append(part)
    return {
        member: [part for part in share if owners.get(part, member) == member]
        for member, share in shares.items()
    }


def _owners(claims: Mapping[str, Claim]) -> dict[Part, str]:
    """Who owns what: of two who say so it is the one that got it in the later generation."""
    owners: dict[Part, str] = {}
    for member, claim in sorted(claims.items(), key=lambda one: (one[1].generation, one[0])):
        owners.update(dict.fromkeys(claim.owned, member))
    return owners
