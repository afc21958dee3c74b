"""The flags of `barnabas acls`, as Apache Kafka's kafka-acls has them, and the ACLs that they stand for."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from enum import IntEnum

from barnabas.client.admin.acls import AclRow
from barnabas.errors import ConfigError
from barnabas.security.acl import (
    CLUSTER_NAME,
    OPERATIONS,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from barnabas.security.hosts import address_range, is_address, is_range

__all__ = ["add_change_flags", "add_filter_flags", "asked", "filters", "operation_named", "resources", "word"]

_FLAGS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transactional-id",
    ResourceType.DELEGATION_TOKEN: "delegation-token",
    ResourceType.USER: "user-principal",
}
_PATTERNS = {"literal": PatternType.LITERAL, "prefixed": PatternType.PREFIXED}
_PRODUCER = (Operation.WRITE, Operation.DESCRIBE, Operation.CREATE)
_TRANSACTION = (Operation.WRITE, Operation.DESCRIBE)
_CONSUMER = (Operation.READ, Operation.DESCRIBE)


def word(code: IntEnum) -> str:
    """As Kafka's tools take it: DescribeConfigs."""
    return "".join(part.capitalize() for part in code.name.split("_"))


def operation_named(text: str) -> Operation:
    """`--operation DescribeConfigs`, also describe_configs.  Raises ConfigError."""
    for operation in Operation:
        plain = operation.name.replace("_", "")
        if operation is not Operation.ANY and text.replace("_", "").replace("-", "").upper() == plain:
            return operation
    known = ", ".join(word(operation) for operation in Operation if operation is not Operation.ANY)
    raise ConfigError(f"there is no operation {text}", next_step=f"use one of {known}")


def _add_resources(verb: argparse.ArgumentParser) -> None:
    for kind, flag in _FLAGS.items():
        verb.add_argument(
            f"--{flag}",
            dest=f"resource {int(kind)}",
            action="append",
            default=[],
            metavar="NAME",
            help=f"the {flag.replace('-', ' ')} of that name (* for all); may be repeated",
        )
    verb.add_argument("--cluster", dest="on_cluster", action="store_true", help="the cluster as a whole")


def add_change_flags(verb: argparse.ArgumentParser) -> None:
    """Flags of `add` and `remove`."""
    _add_resources(verb)
    for permission in ("allow", "deny"):
        verb.add_argument(
            f"--{permission}-principal",
            action="append",
            default=[],
            metavar="User:NAME",
            help=f"whom to {permission}; User:* is everybody",
        )
        verb.add_argument(
            f"--{permission}-host",
            action="append",
            default=[],
            metavar="ADDRESS",
            help=f"address or range (10.0.0.0/8) from which to {permission} (default: any)",
        )
    verb.add_argument(
        "--operation", action="append", default=[], metavar="NAME", help="Read, Write, ... (default: All)"
    )
    verb.add_argument(
        "--resource-pattern-type", choices=sorted(_PATTERNS), default="literal", help="how names are compared"
    )
    verb.add_argument("--producer", action="store_true", help="all that a producer to --topic needs")
    verb.add_argument(
        "--consumer", action="store_true", help="all that a consumer of --topic in --group needs"
    )
    verb.add_argument(
        "--idempotent",
        action="store_true",
        help="with --producer: an idempotent one, also to brokers before 2.8",
    )


def add_filter_flags(verb: argparse.ArgumentParser) -> None:
    """Flags of `list`."""
    _add_resources(verb)
    verb.add_argument("--principal", action="append", default=[], metavar="User:NAME", help="only theirs")
    verb.add_argument(
        "--resource-pattern-type",
        choices=("any", "literal", "match", "prefixed"),
        default="literal",
        help="literal and prefixed: ACLs of that type and name; match: all that concern the name",
    )


def resources(args: argparse.Namespace) -> list[tuple[ResourceType, str]]:
    """What the flags name: [(TOPIC, "orders"), ...]."""
    given = vars(args)
    found = [(kind, name) for kind in _FLAGS for name in given[f"resource {int(kind)}"]]
    return [*found, (ResourceType.CLUSTER, CLUSTER_NAME)] if args.on_cluster else found


def asked(args: argparse.Namespace) -> list[AclRow]:
    """The ACLs that `add` or `remove` is about.  Raises ConfigError."""
    return list(dict.fromkeys(_asked(args)))


def _asked(args: argparse.Namespace) -> Iterator[AclRow]:
    named = resources(args)
    if not named:
        raise ConfigError("say on what", next_step="for example --topic orders, or --cluster")
    if not args.allow_principal and not args.deny_principal:
        raise ConfigError("say for whom", next_step="for example --allow-principal User:alice")
    _check_hosts([*args.allow_host, *args.deny_host])
    pattern = _PATTERNS[args.resource_pattern_type]
    for kind, name in named:
        for operation in _operations(args, kind):
            if kind is ResourceType.CLUSTER and args.resource_pattern_type == "prefixed":
                raise ConfigError("the cluster has one name", next_step="leave --resource-pattern-type out")
            for permission, principals, hosts in (
                (Permission.ALLOW, args.allow_principal, args.allow_host),
                (Permission.DENY, args.deny_principal, args.deny_host),
            ):
                for principal in principals:
                    if ":" not in principal:
                        raise ConfigError(
                            f"{principal!r} is no principal", next_step=f"write User:{principal}"
                        )
                    for host in hosts or ["*"]:
                        yield AclRow(kind, name, pattern, principal, host, operation, permission)
    if args.idempotent and args.producer:
        for principal in args.allow_principal:
            for host in args.allow_host or ["*"]:
                yield AclRow(
                    ResourceType.CLUSTER,
                    CLUSTER_NAME,
                    PatternType.LITERAL,
                    principal,
                    host,
                    Operation.IDEMPOTENT_WRITE,
                    Permission.ALLOW,
                )


def _operations(args: argparse.Namespace, kind: ResourceType) -> tuple[Operation, ...]:
    if args.producer or args.consumer:
        if args.operation or args.deny_principal:
            raise ConfigError(
                "--producer and --consumer say already what is allowed",
                next_step="leave --operation and --deny-principal out, or --producer and --consumer",
            )
        found: dict[Operation, None] = {}
        if args.producer and kind is ResourceType.TOPIC:
            found.update(dict.fromkeys(_PRODUCER))
        if args.producer and kind is ResourceType.TRANSACTIONAL_ID:
            found.update(dict.fromkeys(_TRANSACTION))
        if args.consumer and kind is ResourceType.TOPIC:
            found.update(dict.fromkeys(_CONSUMER))
        if args.consumer and kind is ResourceType.GROUP:
            found[Operation.READ] = None
        return tuple(found)
    operations = tuple(operation_named(text) for text in args.operation) or (Operation.ALL,)
    exist = (Operation.ALL, *OPERATIONS[kind])
    for operation in operations:
        if operation not in exist:
            raise ConfigError(
                f"there is no {word(operation)} on a resource of type {word(kind)}",
                next_step=f"use one of {', '.join(word(one) for one in exist)}",
            )
    return operations


def _check_hosts(hosts: list[str]) -> None:
    for host in hosts:
        if is_range(host):
            try:
                address_range(host)
            except ValueError as error:
                raise ConfigError(
                    f"{host!r} is no range of addresses: {error}", next_step="for example 10.0.0.0/8"
                ) from error
        elif host != "*" and not is_address(host):
            raise ConfigError(
                f"{host!r} is no address, and names of hosts never match",
                next_step="write an address or a range, for example 10.0.0.1 or 10.0.0.0/8, or leave the host out",
            )


def filters(args: argparse.Namespace) -> list[AclRow]:
    """Which ACLs `list` shows."""
    pattern = PatternType[args.resource_pattern_type.upper()]
    named = [AclRow(kind, name, pattern) for kind, name in resources(args)] or [AclRow()]
    return [one._replace(principal=p) for one in named for p in args.principal or [None]]
