"""ACLs as an administrator sees and changes them (KIP-140, KIP-290), and whom a node refused what lately."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NodeId
from barnabas.wire.schemas.acls import (
    AclCreation,
    CreateAclsRequest,
    DeleteAclsFilter,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from barnabas.wire.schemas.cluster import DescribeClusterRequest, DescribeClusterResponse

__all__ = [
    "AclRow",
    "RefusalRow",
    "acls_of",
    "create_acls",
    "delete_acls",
    "refusals_of",
    "refusals_of_controllers",
]


class AclRow(NamedTuple):
    """One ACL, or (None and 1 stand for any) which ACLs are meant; codes as in the protocol."""

    resource: int = 1
    name: str | None = None
    pattern: int = 1
    principal: str | None = None
    host: str | None = None
    operation: int = 1
    permission: int = 1


class RefusalRow(NamedTuple):
    """One kind of refusal at one node: how often, when last (ms), for which API and by which rule."""

    node: int
    principal: str
    host: str
    operation: int
    resource: int
    name: str
    times: int
    last_ms: int
    api: int
    rule: str


@for_both
async def acls_of(cluster: AnyCluster, wanted: AclRow | None = None) -> list[AclRow]:
    """`acls_of(cluster, AclRow(name="orders"))` -> the ACLs that fit (None: all)."""
    answer: DescribeAclsResponse = await cluster.ask(_question(wanted or AclRow()))
    _raise(answer.error_code, answer.error_message)
    return sorted(
        AclRow(
            one.resource_type,
            one.resource_name,
            one.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for one in answer.resources
        for acl in one.acls
    )


def _question(wanted: AclRow, *, why: bool = False) -> DescribeAclsRequest:
    return DescribeAclsRequest(
        resource_type_filter=wanted.resource,
        resource_name_filter=wanted.name,
        pattern_type_filter=wanted.pattern,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission,
        why=why,
    )


@for_both
async def create_acls(cluster: AnyCluster, rows: Sequence[AclRow]) -> None:
    """`create_acls(cluster, [AclRow(ResourceType.TOPIC, "orders", PatternType.LITERAL, "User:ada", "*", ...)])`.

    The enumerations are those of `barnabas.security.acl`.
    """
    request = CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=acl.resource,
                resource_name=acl.name or "",
                resource_pattern_type=acl.pattern,
                principal=acl.principal or "",
                host=acl.host or "*",
                operation=acl.operation,
                permission_type=acl.permission,
            )
            for acl in rows
        ]
    )

    async def attempt() -> None:
        for row in (await (await cluster.any()).request(request)).results:
            _raise(row.error_code, row.error_message)

    await cluster.retrying(attempt)


@for_both
async def delete_acls(cluster: AnyCluster, filters: Iterable[AclRow]) -> list[AclRow]:
    """`delete_acls(cluster, [AclRow(principal="User:ada")])` -> what was removed."""
    request = DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=wanted.resource,
                resource_name_filter=wanted.name,
                pattern_type_filter=wanted.pattern,
                principal_filter=wanted.principal,
                host_filter=wanted.host,
                operation=wanted.operation,
                permission_type=wanted.permission,
            )
            for wanted in filters
        ]
    )
    gone: set[AclRow] = set()

    async def attempt() -> None:
        for result in (await (await cluster.any()).request(request)).filter_results:
            _raise(result.error_code, result.error_message)
            for one in result.matching_acls:
                _raise(one.error_code, one.error_message)
                gone.add(
                    AclRow(
                        one.resource_type,
                        one.resource_name,
                        one.pattern_type,
                        one.principal,
                        one.host,
                        one.operation,
                        one.permission_type,
                    )
                )

    await cluster.retrying(attempt)
    return sorted(gone)


@for_both
async def refusals_of(cluster: AnyCluster) -> list[RefusalRow]:
    """`refusals_of(cluster)` -> whom the brokers refused what since they started, the newest first."""
    question = _question(_NOTHING, why=True)
    found: list[RefusalRow] = []
    for node in await cluster.brokers():
        connection = await cluster.connection(node.id)
        found += _refusals(node.id, await connection.request(question))
    return sorted(found, key=lambda one: -one.last_ms)


@for_both
async def refusals_of_controllers(cluster: AnyCluster) -> list[RefusalRow]:
    """The same of the controllers, where `cluster` knows the address of one of them."""
    known: DescribeClusterResponse = await cluster.ask(DescribeClusterRequest(endpoint_type=2))
    _raise(known.error_code, known.error_message)
    question = _question(_NOTHING, why=True)
    found: list[RefusalRow] = []
    for node in known.brokers:
        connection = await cluster.dial(node.host, node.port)
        try:
            found += _refusals(node.broker_id, await connection.request(question))
        finally:
            await connection.close()
    return sorted(found, key=lambda one: -one.last_ms)


_NOTHING = AclRow(resource=4, name="", pattern=3)
"""No ACL fits it."""


def _refusals(node: NodeId, answer: DescribeAclsResponse) -> list[RefusalRow]:
    _raise(answer.error_code, answer.error_message)
    return [
        RefusalRow(
            node,
            one.principal,
            one.host,
            one.operation,
            one.resource_type,
            one.resource_name,
            one.times,
            one.last_ms,
            one.api,
            one.rule,
        )
        for one in answer.refusals
    ]


def _raise(code: int, message: str | None) -> None:
    if code:
        too_low = code == ErrorCode.UNSUPPORTED_VERSION  # metadata.version, for a range of addresses
        step = "`barnabas features upgrade --release-version 4.4`, once every node knows it"
        raise KafkaError(
            ErrorCode(code), message or "the request was refused", next_step=step if too_low else None
        )
