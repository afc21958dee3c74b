"""Access control lists: the words, and one ACL as a value (KIP-11, KIP-290).

    Acl(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)

The codes are those of Kafka's protocol and of its metadata records.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

__all__ = [
    "CLUSTER_NAME",
    "EVERYBODY",
    "OPERATIONS",
    "WILDCARD",
    "Acl",
    "AclFilter",
    "Operation",
    "PatternType",
    "Permission",
    "ResourceType",
]

CLUSTER_NAME = "kafka-cluster"
"""The one name that a resource of type CLUSTER has."""
WILDCARD = "*"
EVERYBODY = "User:*"


class Operation(IntEnum):
    """What one may do to a resource (codes of KIP-11 and its successors)."""

    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class ResourceType(IntEnum):
    """What one may be allowed to touch (codes of KIP-11 and its successors)."""

    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL, or of a filter, is compared (KIP-290).  ANY and MATCH exist in filters only."""

    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether an ACL allows or denies.  ANY exists in filters only."""

    ANY = 1
    DENY = 2
    ALLOW = 3


_EVERYWHERE = (Operation.ALTER, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
OPERATIONS: dict[ResourceType, tuple[Operation, ...]] = {
    ResourceType.TOPIC: (*_EVERYWHERE, Operation.READ, Operation.WRITE, Operation.CREATE, Operation.DELETE),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        *_EVERYWHERE,
        Operation.CREATE,
        Operation.CLUSTER_ACTION,
        Operation.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE, Operation.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    ResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}
"""The operations that exist on each type of resource."""


class Acl(NamedTuple):
    """One access control entry on one resource pattern.

    `principal` is "TYPE:name" ("User:*": everybody), `host` an address, a range ("10.0.0.0/8") or "*".
    """

    resource: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    def __str__(self) -> str:
        """As Apache Kafka's tools spell it in one line."""
        return (
            f"{_word(Permission, self.permission)} {self.principal} {_word(Operation, self.operation)} on "
            f"{_word(ResourceType, self.resource)}:{_word(PatternType, self.pattern)}:{self.name} "
            f"from {self.host}"
        )


class AclFilter(NamedTuple):
    """Which ACLs are meant.  None, and the code 1 (ANY), mean whatever it is (KIP-140)."""

    resource: int = ResourceType.ANY
    name: str | None = None
    pattern: int = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: int = Operation.ANY
    permission: int = Permission.ANY

    def matches(self, acl: Acl) -> bool:
        """Whether `acl` is one of them.

        MATCH finds every ACL that concerns the resource of that name: literal, wildcard and prefixed.
        """
        return (
            self.resource in (ResourceType.ANY, acl.resource)
            and self._matches_name(acl)
            and (self.principal is None or self.principal == acl.principal)
            and (self.host is None or self.host == acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern not in (PatternType.ANY, PatternType.MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern in (PatternType.ANY, acl.pattern):
            return self.name == acl.name
        if acl.pattern == PatternType.LITERAL:
            return acl.name in (self.name, WILDCARD)
        return self.name.startswith(acl.name)


def _word(kind: type[IntEnum], code: int) -> str:
    try:
        return kind(code).name
    except ValueError:
        return f"{kind.__name__}({code})"
