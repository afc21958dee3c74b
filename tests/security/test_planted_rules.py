"""Bugs planted in the rules of ACLs, each of which a comparison with the plain reading of the rules must find."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from barnabas.security import authorizer as rules
from barnabas.security.acl import EVERYBODY, OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType
from barnabas.security.authorizer import Decision, StandardAuthorizer
from barnabas.security.hosts import plain_host

NAMES = ("*", "a", "ab", "abc", "b", "*a")
WHO = ("User:alice", "User:bob", EVERYBODY)
HOSTS = ("10.0.0.1", "::ffff:10.0.0.2", "::1")
RANGES = {"10.0.0.0/31": ("10.0.0.1",), "10.0.0.2/8": ("10.0.0.1", "10.0.0.2"), "::/0": ("::1",)}
SAME = {"::ffff:10.0.0.2": "10.0.0.2", "0:0:0:0:0:0:0:1": "::1"}
IMPLIED = {
    Operation.DESCRIBE: {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER},
    Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
}


def plain_reading(
    acls: list[Acl], everyone: bool, who: str, host: str, operation: Operation, kind: ResourceType, name: str
) -> bool:
    """Every ACL is looked at, in the words of the rules."""

    def concerns(one: Acl) -> bool:
        if one.resource != kind:
            return False
        if one.pattern == PatternType.PREFIXED:
            return name.startswith(one.name)
        return one.name in (name, "*")

    def from_there(one: Acl, address: str) -> bool:
        return SAME.get(one.host, one.host) in ("*", address) or address in RANGES.get(one.host, ())

    def matches(one: Acl) -> bool:
        meant = {operation, Operation.ALL}
        if one.permission == Permission.ALLOW:
            meant |= IMPLIED.get(operation, set())
        return (
            one.principal in (who, EVERYBODY)
            and from_there(one, SAME.get(host, host))
            and one.operation in meant
        )

    on_it = [one for one in acls if concerns(one)]
    found = {one.permission for one in on_it if matches(one)}
    if Permission.DENY in found:
        return False
    return Permission.ALLOW in found or (not on_it and everyone)


def differs() -> bool:
    """Whether some decision is not what the plain reading says; also after ACLs were removed."""
    rng = random.Random(5)
    for world in range(120):
        everyone = world % 3 == 0
        acls = [
            Acl(
                rng.choice((ResourceType.TOPIC, ResourceType.GROUP)),
                rng.choice(NAMES),
                rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                rng.choice(WHO),
                rng.choice(("*", *HOSTS, *RANGES)),
                rng.choice([op for op in Operation if op is not Operation.ANY]),
                rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
            )
            for _ in range(world % 13)
        ]
        authorizer = StandardAuthorizer(("User:root",), allow_everyone=everyone)
        if authorizer.decide("User:alice", HOSTS[0], Operation.READ, ResourceType.TOPIC, "a").allowed:
            return True  # nothing is loaded yet
        authorizer.loaded = True
        for number, one in enumerate(acls):
            authorizer.put(number, one)
        for gone in range(0, len(acls), 4):
            authorizer.remove(gone)
        left = [one for number, one in enumerate(acls) if number % 4]
        for _ in range(40):
            kind = rng.choice((ResourceType.TOPIC, ResourceType.GROUP))
            asked = (
                rng.choice(("User:alice", "User:bob", "User:root")),
                rng.choice((*HOSTS, *SAME.values(), *SAME)),
                rng.choice(OPERATIONS[kind]),
                kind,
                rng.choice((*NAMES, "zz")),
            )
            mine = authorizer.decide(*asked).allowed
            if mine != (asked[0] == "User:root" or plain_reading(left, everyone, *asked)):
                return True
    return False


def test_decisions_are_what_the_plain_reading_of_the_rules_says() -> None:
    assert not differs()


def _method(name: str, replacement: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(StandardAuthorizer, name, replacement)


def _entries(change: Callable[[Any], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    whole = rules._entry
    return lambda patch: patch.setattr(rules, "_entry", lambda acl: change(whole(acl)))


_decide, _concerning, _remove = (
    StandardAuthorizer.decide,
    StandardAuthorizer._concerning,
    StandardAuthorizer.remove,
)


def _allow_first(self: StandardAuthorizer, *asked: Any) -> Decision:
    found = _decide(self, *asked)
    allows = [a for a in self._by_id.values() if a.permission == Permission.ALLOW and a.principal == asked[0]]
    return Decision(True, "") if allows and not found.allowed and found.acl is not None else found


def _without_wildcard(self: StandardAuthorizer, resource: int, name: str) -> list[Any]:
    return [
        bucket
        for bucket in _concerning(self, resource, name)
        if bucket is not self._literal.get((resource, "*"))
    ]


def _of_any_type(self: StandardAuthorizer, resource: int, name: str) -> list[Any]:
    return _concerning(self, 2, name) + _concerning(self, 3, name)


def _prefix_as_literal(self: StandardAuthorizer, resource: int, name: str) -> list[Any]:
    found = [self._literal.get((resource, name)), self._literal.get((resource, "*"))]
    return [bucket for bucket in (*found, self._prefixed.get((resource, name))) if bucket]


def _forgets_the_principal(self: StandardAuthorizer, id_: Any) -> None:
    acl = self._by_id[id_]
    with suppress(KeyError):  # an earlier removal forgot this one
        _remove(self, id_)
    buckets = self._prefixed if acl.pattern == PatternType.PREFIXED else self._literal
    buckets.get((acl.resource, acl.name), {}).pop(acl.principal, None)


def _keeps_it(self: StandardAuthorizer, id_: Any) -> None:
    self._by_id.pop(id_)


PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "an allow wins over a deny": _method("decide", _allow_first),
    "a deny is not seen": _entries(lambda entry: entry._replace(denies=False)),
    "everything denies": _entries(lambda entry: entry._replace(denies=True)),
    "the host is not compared": _entries(lambda entry: entry._replace(host=None)),
    "hosts are compared as text": lambda patch: patch.setattr(rules, "matches_host", str.__eq__),
    "ranges are not enforced": lambda patch: patch.setattr(
        rules, "matches_host", lambda pattern, host: plain_host(pattern) == plain_host(host)
    ),
    "the operation is not compared": _entries(lambda entry: entry._replace(bits=-1)),
    "a deny implies as an allow does": _entries(
        lambda entry: entry._replace(bits=entry.bits | 1 << 8) if entry.denies else entry
    ),
    "nothing is implied": lambda patch: patch.setattr(rules, "_IMPLIES", {}),
    "all operations are one": _entries(
        lambda entry: entry._replace(bits=1 << 2) if entry.bits == -1 else entry
    ),
    "the wildcard is not looked at": _method("_concerning", _without_wildcard),
    "a prefix of topics opens groups": _method("_concerning", _of_any_type),
    "prefixes match whole names only": _method("_concerning", _prefix_as_literal),
    "everybody's ACLs are not looked at": lambda patch: patch.setattr(rules, "EVERYBODY", "User:nobody"),
    "removing one ACL forgets others (CVE-2024-27309)": _method("remove", _forgets_the_principal),
    "a removed ACL stays in force": _method("remove", _keeps_it),
    "a resource with ACLs is open to everyone": lambda patch: patch.setattr(
        rules, "NO_MATCH", rules.EVERYONE
    ),
    "everyone may by default": lambda patch: patch.setattr(rules, "NO_ACL", rules.EVERYONE),
    "what is not loaded is open": lambda patch: patch.setattr(rules, "NOT_LOADED", rules.SUPER_USER),
    "a super user is nobody": lambda patch: patch.setattr(rules, "SUPER_USER", rules.NO_ACL),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[bug](monkeypatch)
    assert differs(), f"nobody notices that {bug}"


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) >= 20
