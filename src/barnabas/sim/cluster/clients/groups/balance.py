"""G5: in the end every partition has one owner, and they are shared out as the assignor promises."""

from __future__ import annotations

from collections.abc import Mapping, Set

from barnabas.model import TopicId
from barnabas.sim.cluster.clients.groups.positions import Place

__all__ = ["check_balance"]


def check_balance(
    wanted: Mapping[str, Set[Place]],
    owned: Mapping[str, Set[Place]],
    assignors: Set[str],
    ranks: Mapping[str, object],
) -> str | None:
    """What is wrong with who owns what; None when nothing is.

    `wanted`: what each member subscribes to; `ranks`: the order in which `range` takes the members.
    """
    owners: dict[Place, str] = {}
    for member, places in owned.items():
        for place in places:
            if place not in wanted[member]:
                return f"{member} owns {place}, to which it does not subscribe"
            if (other := owners.setdefault(place, member)) != member:
                return f"{other} and {member} own {place}"
    for place in sorted(set[Place]().union(*wanted.values()) - owners.keys()):
        return f"nobody owns {place}"
    if assignors == {"range"}:
        return _ranges(wanted, owned, ranks)
    if assignors == {"uniform"} and len({frozenset(places) for places in wanted.values()}) == 1:
        counts = {member: len(places) for member, places in owned.items()}
        if max(counts.values()) - min(counts.values()) > 1:
            return f"not shared out evenly: {counts}"
    return None


def _ranges(
    wanted: Mapping[str, Set[Place]], owned: Mapping[str, Set[Place]], ranks: Mapping[str, object]
) -> str | None:
    """Of each topic its subscribers own neighbouring partitions, the first of them one more where need be."""
    topics: dict[TopicId, set[int]] = {}
    for topic, index in set[Place]().union(*wanted.values()):
        topics.setdefault(topic, set()).add(index)
    for topic, indexes in topics.items():
        members = sorted(
            (member for member, places in wanted.items() if (topic, min(indexes)) in places),
            key=lambda member: ranks[member],  # type: ignore[arg-type, return-value]
        )
        least, extra = divmod(len(indexes), len(members))
        start = 0
        for number, member in enumerate(members):
            end = start + least + (number < extra)
            mine = {index for name, index in owned[member] if name == topic}
            if mine != set(range(start, end)):
                return f"{member} owns {sorted(mine)} of {topic}, not {start} to {end - 1}"
            start = end
    return None
