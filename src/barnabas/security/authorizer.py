"""Decides by ACLs who may do what: the rules of Apache Kafka's StandardAuthorizer.

    authorizer = StandardAuthorizer(("User:admin",))
    authorizer.put(uuid, Acl(...))
    authorizer.loaded = True
    authorizer.decide("User:alice", "10.0.0.1", Operation.READ, ResourceType.TOPIC, "orders").allowed

In order: a super user may do everything.  Before the metadata is loaded nobody else may do anything.  Of the ACLs
on the resource (its literal name, prefixes of it, the literal "*") that match principal, host and operation, one
DENY refuses; else one ALLOW allows.  Else, if the resource has any ACL, it is refused; if it has none,
`allow.everyone.if.no.acl.found` decides.  ALLOW of READ, WRITE, DELETE or ALTER implies DESCRIBE, ALLOW of
ALTER_CONFIGS implies DESCRIBE_CONFIGS; DENY implies nothing.

Two deviations from Kafka, on purpose: hosts are compared as addresses (`hosts`), not as text; and an ACL on "*"
concerns also a name that begins with an asterisk (in Kafka a group called "*x" steps over a DENY on all groups).

ACLs are found by dictionaries: literal names, and prefixes by their length; each has its ACLs by principal.  So a
decision costs the same with ten ACLs and with a hundred thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from barnabas.security.acl import (
    EVERYBODY,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
)
from barnabas.security.hosts import matches_host

__all__ = ["Decision", "StandardAuthorizer"]

_IMPLIES: dict[int, int] = {
    Operation.READ: 1 << Operation.DESCRIBE,
    Operation.WRITE: 1 << Operation.DESCRIBE,
    Operation.DELETE: 1 << Operation.DESCRIBE,
    Operation.ALTER: 1 << Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: 1 << Operation.DESCRIBE_CONFIGS,
}
_ALL_BITS = -1
_PROBE = "hardcode"
"""The name that Apache Kafka asks for first where it wants to know about any resource of a type."""


class Decision(NamedTuple):
    """What was decided, and by which ACL; `acl` None: by the rule that `why` names."""

    allowed: bool
    why: str
    acl: Acl | None = None

    def __str__(self) -> str:
        return str(self.acl) if self.acl is not None else self.why


SUPER_USER = Decision(True, "the principal is in super.users")
NOT_LOADED = Decision(False, "the metadata is not loaded yet: only super users may do anything")
NO_MATCH = Decision(False, "the resource has ACLs, and none of them allows this")
NO_ACL = Decision(False, "no ACL allows this (allow.everyone.if.no.acl.found is false)")
EVERYONE = Decision(True, "the resource has no ACL, and allow.everyone.if.no.acl.found is true")


class _Entry(NamedTuple):
    """One ACL ready to be compared: which operations it covers, from which host (None: any)."""

    bits: int
    host: str | None
    denies: bool
    acl: Acl


_Bucket = dict[str, tuple[_Entry, ...]]
"""The ACLs of one resource pattern by principal."""


class StandardAuthorizer:
    """All ACLs of a cluster, by id, and the decisions that come of them.

    `generation` grows with every change: what was decided in an earlier one must be decided again.
    """

    __slots__ = (
        "_by_id",
        "_default",
        "_lengths",
        "_literal",
        "_owned",
        "_prefixed",
        "generation",
        "loaded",
        "super_users",
    )

    def __init__(self, super_users: Iterable[str] = (), *, allow_everyone: bool = False) -> None:
        self.super_users = frozenset(super_users)
        self.loaded = False
        self.generation = 0
        self._default = EVERYONE if allow_everyone else NO_ACL
        self._by_id: dict[Any, Acl] = {}
        self._literal: dict[tuple[int, str], _Bucket] = {}
        self._prefixed: dict[tuple[int, str], _Bucket] = {}
        self._lengths: dict[int, dict[int, int]] = {}
        """By resource type: length of a prefix -> how many patterns have it; longest first."""
        self._owned: dict[tuple[int, str], dict[Acl, int]] = {}
        """The ACLs of one principal on one type of resource, for `decide_any`; how often each is there."""

    def __repr__(self) -> str:
        return f"<StandardAuthorizer {len(self._by_id)} ACLs, {len(self.super_users)} super users>"

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, id_: object) -> bool:
        return id_ in self._by_id

    # what changes them

    def put(self, id_: Any, acl: Acl) -> None:
        """An ACL was added; one of the same id is replaced."""
        if id_ in self._by_id:
            self.remove(id_)
        self.generation += 1
        self._by_id[id_] = acl
        buckets = self._prefixed if acl.pattern == PatternType.PREFIXED else self._literal
        where = (acl.resource, acl.name)
        bucket = buckets.get(where)
        if bucket is None:
            bucket = buckets[where] = {}
            if acl.pattern == PatternType.PREFIXED:
                self._count_length(acl, 1)
        bucket[acl.principal] = (*bucket.get(acl.principal, ()), _entry(acl))
        owned = self._owned.setdefault((acl.resource, acl.principal), {})
        owned[acl] = owned.get(acl, 0) + 1

    def remove(self, id_: Any) -> None:
        """An ACL is gone.  Raises KeyError for an id that nobody put."""
        acl = self._by_id.pop(id_)
        self.generation += 1
        buckets = self._prefixed if acl.pattern == PatternType.PREFIXED else self._literal
        where = (acl.resource, acl.name)
        bucket = buckets[where]
        entries = list(bucket[acl.principal])
        entries.remove(_entry(acl))
        if entries:
            bucket[acl.principal] = tuple(entries)
        else:
            del bucket[acl.principal]
            if not bucket:
                del buckets[where]
                if acl.pattern == PatternType.PREFIXED:
                    self._count_length(acl, -1)
        owned = self._owned[acl.resource, acl.principal]
        owned[acl] -= 1
        if not owned[acl]:
            del owned[acl]
            if not owned:
                del self._owned[acl.resource, acl.principal]

    def _count_length(self, acl: Acl, more: int) -> None:
        counts = dict(self._lengths.get(acl.resource, {}))
        length = len(acl.name)
        counts[length] = counts.get(length, 0) + more
        if not counts[length]:
            del counts[length]
        self._lengths[acl.resource] = dict(sorted(counts.items(), reverse=True))

    # what is asked

    def get(self, id_: Any) -> Acl | None:
        """The ACL of that id."""
        return self._by_id.get(id_)

    def found(self, wanted: AclFilter) -> Iterator[Acl]:
        """The ACLs that a filter means."""
        return (acl for acl in self._by_id.values() if wanted.matches(acl))

    def decide(self, principal: str, host: str, operation: int, resource: int, name: str) -> Decision:
        """Whether `principal`, from the address `host`, may do that to the resource of that literal name."""
        if principal in self.super_users:
            return SUPER_USER
        if not self.loaded:
            return NOT_LOADED
        bit, found = 1 << operation, None
        buckets = self._concerning(resource + 0, name)  # (a plain number: an enum's own hash is slow)
        for bucket in buckets:
            for owner in (principal, EVERYBODY):
                for entry in bucket.get(owner, ()):
                    if (
                        entry.bits & bit
                        and (found is None or entry.denies)
                        and (entry.host is None or matches_host(entry.host, host))
                    ):
                        if entry.denies:
                            return Decision(False, "an ACL denies it", entry.acl)
                        found = entry.acl
        if found is not None:
            return Decision(True, "an ACL allows it", found)
        return NO_MATCH if buckets else self._default

    def _concerning(self, resource: int, name: str) -> list[_Bucket]:
        """The ACLs on a resource: of its name, of "*", and of each prefix of its name."""
        found = []
        if (bucket := self._literal.get((resource, name))) is not None:
            found.append(bucket)
        if name != WILDCARD and (bucket := self._literal.get((resource, WILDCARD))) is not None:
            found.append(bucket)
        for length in self._lengths.get(resource, ()):
            if length <= len(name) and (bucket := self._prefixed.get((resource, name[:length]))) is not None:
                found.append(bucket)
        return found

    def decide_any(self, principal: str, host: str, operation: int, resource: int) -> Decision:
        """Whether `principal` may do that to at least one resource of the type, whatever its name (KIP-679).

        A DENY on "*" ends it; an ALLOW counts unless a DENY of the same name, or of a prefix of it, covers it.
        """
        first = self.decide(principal, host, operation, resource, _PROBE)
        if first.allowed or not self.loaded:
            return first
        denied: set[tuple[int, str]] = set()
        allows: list[Acl] = []
        owners = (principal,) if principal == EVERYBODY else (principal, EVERYBODY)
        for owner in owners:
            for acl in self._owned.get((resource, owner), ()):
                if acl.operation not in (operation, Operation.ALL):
                    continue
                if acl.host != WILDCARD and not matches_host(acl.host, host):
                    continue
                if acl.permission != Permission.DENY:
                    allows.append(acl)
                elif (acl.pattern, acl.name) == (PatternType.LITERAL, WILDCARD):
                    return Decision(False, "an ACL denies it", acl)
                else:
                    denied.add((acl.pattern, acl.name))
        for acl in allows:
            if not _covered(acl, denied):
                return Decision(True, "an ACL allows it", acl)
        return NO_MATCH if allows else NO_ACL


def _covered(acl: Acl, denied: set[tuple[int, str]]) -> bool:
    """Whether DENY patterns take all that an ALLOW gives."""
    if (acl.pattern, acl.name) == (PatternType.LITERAL, WILDCARD):
        return False
    if acl.pattern == PatternType.LITERAL and (acl.pattern, acl.name) in denied:
        return True
    return any((PatternType.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))


def _entry(acl: Acl) -> _Entry:
    denies = acl.permission == Permission.DENY
    bits = _ALL_BITS if acl.operation == Operation.ALL else 1 << acl.operation
    if not denies and acl.operation != Operation.ALL:
        bits |= _IMPLIES.get(acl.operation, 0)
    return _Entry(bits, None if acl.host == WILDCARD else acl.host, denies, acl)
