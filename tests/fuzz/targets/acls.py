"""ACLs: any set of them, changed in any order, decides as a model that looks at each one by one.

The model is the text of Apache Kafka's rules in twenty lines; the comparison with Kafka's own classes is in
tests/compat/test_authorizer.py.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Hashable, Iterator

from tests.fuzz.engine.draw import Draw
from tests.fuzz.engine.target import Target

from barnabas.security.acl import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from barnabas.security.authorizer import StandardAuthorizer

__all__ = ["TARGETS"]

PUT, REMOVE, DECIDE, ANY, FIND = range(5)
NAMES = ("a", "ab", "abc", "b", "*", "*x", "hardcode", "ä", "a" * 40)
"""No ACL has an empty name: CreateAcls refuses it."""
PRINCIPALS = ("User:a", "User:*", "User:b", "Group:a", "User:root")
HOSTS = ("*", "10.0.0.1", "::ffff:10.0.0.1", "::1", "0:0:0:0:0:0:0:1", "10.0.0.2", "name")
OPERATIONS = tuple(Operation)[1:]
RESOURCES = (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER)
_IMPLIED = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}


def _address(text: str) -> object:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    mapped = found.ipv4_mapped if found.version == 6 else None
    return mapped or found


def _concerns(acl: Acl, resource: int, name: str) -> bool:
    if acl.resource != resource:
        return False
    return name.startswith(acl.name) if acl.pattern == PatternType.PREFIXED else acl.name in (name, "*")


def _speaks_of(acl: Acl, principal: str, host: str, operations: tuple[int, ...]) -> bool:
    return (
        acl.principal in (principal, "User:*")
        and (acl.host == "*" or _address(acl.host) == _address(host))
        and acl.operation in (*operations, Operation.ALL)
    )


def model(acls: list[Acl], principal: str, host: str, operation: int, resource: int, name: str) -> bool:
    """Whether it is allowed, by the rules as they are written."""
    if principal == "User:root":
        return True
    about = [acl for acl in acls if _concerns(acl, resource, name)]
    denies = [acl for acl in about if acl.permission == Permission.DENY]
    if any(_speaks_of(acl, principal, host, (operation,)) for acl in denies):
        return False
    enough = (operation, *_IMPLIED.get(Operation(operation), ()))
    return any(_speaks_of(acl, principal, host, enough) for acl in about if acl not in denies)


def _found(wanted: AclFilter, acl: Acl) -> bool:
    """Whether a filter means an ACL, by KIP-140 and KIP-290."""
    equal = all(
        getattr(wanted, field) in (none, getattr(acl, field))
        for field, none in (
            ("resource", 1),
            ("principal", None),
            ("host", None),
            ("operation", 1),
            ("permission", 1),
        )
    )
    if not equal or wanted.pattern not in (1, 2, acl.pattern):
        return False
    if wanted.name is None or wanted.name == acl.name:
        return True
    if wanted.pattern != PatternType.MATCH:
        return False
    prefix = acl.pattern == PatternType.PREFIXED and wanted.name.startswith(acl.name)
    return prefix or (acl.pattern == PatternType.LITERAL and acl.name == "*")


class _Play:
    """An authorizer and the list of what it was given."""

    def __init__(self) -> None:
        self.authorizer = StandardAuthorizer(("User:root",))
        self.authorizer.loaded = True
        self.acls: dict[int, Acl] = {}

    def step(self, draw: Draw) -> int:
        kind = draw.below(5)
        if kind == PUT:
            acl = _acl(draw)
            id_ = draw.below(12)
            self.acls[id_] = acl
            self.authorizer.put(id_, acl)
        elif kind == REMOVE and self.acls:
            id_ = draw.of(sorted(self.acls))
            del self.acls[id_]
            self.authorizer.remove(id_)
        elif kind == DECIDE:
            asked = (
                draw.of(PRINCIPALS),
                draw.of(HOSTS[1:]),
                draw.of(OPERATIONS),
                draw.of(RESOURCES),
                draw.of(NAMES),
            )
            decision = self.authorizer.decide(*asked)
            allowed = model(list(self.acls.values()), *asked)
            assert decision.allowed is allowed, f"{asked}: {decision}, the model says {allowed}"
        elif kind == ANY:
            self._any(draw.of(PRINCIPALS), draw.of(HOSTS[1:]), draw.of(OPERATIONS), draw.of(RESOURCES))
        elif kind == FIND:
            wanted = AclFilter(
                draw.of((1, *RESOURCES)), draw.of((None, *NAMES)), draw.of(tuple(PatternType)),
                draw.of((None, *PRINCIPALS)), draw.of((None, *HOSTS)), draw.of((1, *OPERATIONS)), draw.of((1, 2, 3)),
            )  # fmt: skip
            expected = [acl for acl in self.acls.values() if _found(wanted, acl)]
            assert sorted(self.authorizer.found(wanted)) == sorted(expected), wanted
        assert len(self.authorizer) == len(self.acls)
        return kind

    def _any(self, principal: str, host: str, operation: int, resource: int) -> None:
        """Whoever may do it to any name may do it to one that an ACL names, or that begins as one does."""
        if not self.authorizer.decide_any(principal, host, operation, resource).allowed:
            return
        acls = list(self.acls.values())
        names = {"hardcode", *(acl.name for acl in acls), *(acl.name + "\uffff" for acl in acls)}
        allowed = [name for name in names if model(acls, principal, host, operation, resource, name)]
        assert allowed, f"{principal} may do {operation} to any {resource}, and to none"


def _acl(draw: Draw) -> Acl:
    return Acl(
        draw.of(RESOURCES),
        draw.of(NAMES),
        draw.of((PatternType.LITERAL, PatternType.PREFIXED)),
        draw.of(PRINCIPALS),
        draw.of(HOSTS),
        draw.of(OPERATIONS),
        draw.of((Permission.ALLOW, Permission.DENY)),
    )


def _make() -> object:
    def one(data: bytes) -> Hashable:
        draw, play = Draw(data), _Play()
        steps = []
        for _ in range(80):
            if not draw:
                break
            steps.append(play.step(draw))
        return tuple(sorted(set(steps))), len(play.acls), tuple(steps[-1:])

    return one


def _seeds() -> Iterator[bytes]:
    rng = random.Random(1)
    for _ in range(20):
        steps = [bytes((PUT, *rng.randbytes(8))) for _ in range(6)]
        steps += [bytes((rng.choice((REMOVE, DECIDE, ANY, FIND)), *rng.randbytes(6))) for _ in range(10)]
        yield b"".join(steps)


TARGETS = [Target("acls", "ACLs, filters and decisions beside a model", _make, (), _seeds, longest=512)]  # type: ignore[arg-type]
