"""Which rows of the table of APIs ask for a right at the door, for each item of a request, or in their handler.

A row says which operation on which kind of resource it needs.  On the cluster as a whole that is asked once, for
the whole request, unless a guard tells its items apart.  Of all other resources something must: a guard, or the
handler.  A row without that is refused when the table is loaded, so that no API is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from barnabas.broker.ports import Operation, ResourceType
from barnabas.server.net.route import Row
from barnabas.wire.registry import API_NAMES

__all__ = ["Needed", "all_guarded", "needed"]


class Needed(Enum):
    """Where the right of a row is asked for."""

    NOTHING = "everybody may"
    WHOLE = "once, on the cluster"
    EACH = "by a guard that tells the items of a request apart"
    IN_HANDLER = "by the handler, between its other checks"


_IN_HANDLER = frozenset({0, 1, 2, 3, 21, 22, 23, 25, 26, 27, 41, 61, 65, 66, 75})
_EACH = frozenset(
    {8, 9, 10, 11, 12, 13, 14, 15, 16, 19, 20, 24, 28, 32, 33, 34, 37, 38, 42, 43, 44, 45, 47, 60, 68, 69}
)


def needed(row: Row) -> Needed:
    """Where the right of a row is asked for.  Raises ValueError for a row that does not say enough."""
    name = API_NAMES.get(row.key, row.key)
    if not isinstance(row.operation, Operation) or not isinstance(row.resource, ResourceType):
        raise ValueError(f"{name} names no operation and no resource: who may call it?")
    on_cluster = row.resource is ResourceType.CLUSTER
    if row.operation is Operation.ANY:
        return Needed.NOTHING
    if row.listeners == "C":  # between nodes: nothing finer than the cluster
        if not on_cluster:
            raise ValueError(f"{name} is between nodes and asks for no right on the cluster")
        return Needed.WHOLE
    if row.key in _IN_HANDLER:
        return Needed.IN_HANDLER
    if row.key in _EACH:
        return Needed.EACH
    if not on_cluster:
        raise ValueError(f"{name} has nothing that tells its items apart: give it a guard")
    return Needed.WHOLE


def all_guarded(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows, each of which says who may call it.  Raises ValueError."""
    found = tuple(rows)
    for row in found:
        needed(row)
    return found
