"""ACLs: CreateAcls and DeleteAcls, decisions, and DescribeAcls, an answer from the image (KIP-140, KIP-290).

Each ACL of a request to create succeeds or fails by itself; one that is there already succeeds without a record.
A request to delete is carried out as a whole.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from barnabas.config import Config
from barnabas.controller.feature_levels import METADATA_VERSION, RELEASES
from barnabas.controller.image import MetadataImage
from barnabas.controller.snapshot import acl_record
from barnabas.controller.versions import CIDR
from barnabas.controller.view import BATCH_LIMIT, Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Uuid
from barnabas.security.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from barnabas.security.hosts import address_range, is_range
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import RemoveAccessControlEntryRecord
from barnabas.wire.schemas.acls import (
    AclCreation,
    AclCreationResult,
    AclDescription,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

__all__ = ["NO_AUTHORIZER", "create_acls", "delete_acls", "describe_acls", "require_authorizer"]

NO_AUTHORIZER = (
    "this cluster has no authorizer: everybody may do everything (authorizer.class.name turns one on)"
)
_ACLS_PER_STEP = 2000
"""ACLs that are compared with a filter in one step of a decision."""


def require_authorizer(config: Config) -> None:
    """Raises KafkaError SECURITY_DISABLED where no authorizer is on, so that nobody believes to be protected."""
    if not config.optional_str("authorizer.class.name"):
        raise KafkaError(ErrorCode.SECURITY_DISABLED, NO_AUTHORIZER)


def create_acls(view: View, request: CreateAclsRequest) -> Decision:
    """CreateAcls (key 30).  Raises KafkaError: SECURITY_DISABLED, or INVALID_REQUEST for too many at once."""
    require_authorizer(view.config)
    records: list[MetadataRecord] = []
    results: list[AclCreationResult] = []
    known, new = view.image.acl_ids, set[Acl]()
    for asked in request.creations:
        try:
            acl = _checked(asked, view.image.feature(METADATA_VERSION))
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
            continue
        if acl not in known and acl not in new:
            new.add(acl)
            records.append(acl_record(view.randomness.uuid(), acl))
            if len(records) > BATCH_LIMIT:
                raise _invalid(f"one request may create at most {BATCH_LIMIT} ACLs")
        results.append(AclCreationResult())
    return Decision(CreateAclsResponse(results=results), records)


def _checked(asked: AclCreation, level: int) -> Acl:
    """The ACL that is asked for, at this metadata.version.

    Raises KafkaError INVALID_REQUEST or UNSUPPORTED_VERSION, in Kafka's order and words.
    """
    if asked.resource_type == ResourceType.CLUSTER and asked.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not asked.resource_name:
        raise _invalid("Invalid empty resource name")
    _concrete(ResourceType, asked.resource_type, "resourceType")
    if asked.resource_pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {_word(PatternType, asked.resource_pattern_type)}")
    _concrete(Operation, asked.operation, "operation")
    _concrete(Permission, asked.permission_type, "permissionType")
    if ":" not in asked.principal:
        raise _invalid(
            f"Could not parse principal from `{asked.principal}` (no colon is present separating the principal "
            "type from the principal name)"
        )
    _check_host(asked.host, level)
    return Acl(
        asked.resource_type,
        asked.resource_name,
        asked.resource_pattern_type,
        asked.principal,
        asked.host,
        asked.operation,
        asked.permission_type,
    )


def _check_host(host: str, level: int) -> None:
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    if not is_range(host):
        return
    if level < CIDR:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"CIDR-based ACL host patterns require metadata version {RELEASES[CIDR]} or higher.",
        )
    try:
        address_range(host)
    except ValueError as error:
        raise _invalid(f"Invalid CIDR notation '{host}': {error}") from error


def _concrete(kind: type[IntEnum], code: int, name: str) -> None:
    word = _word(kind, code)
    if word in ("UNKNOWN", "ANY"):
        raise _invalid(f"Invalid {name} {word}")


def _word(kind: type[IntEnum], code: int) -> str:
    try:
        return kind(code).name
    except ValueError:
        return "UNKNOWN"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def delete_acls(view: View, request: DeleteAclsRequest) -> Deciding:
    """DeleteAcls (key 31).  What two filters match is gone once, and in the answer of both."""
    require_authorizer(view.config)
    gone: dict[Uuid, Acl] = {}
    results: list[DeleteAclsFilterResult] = []
    for asked in request.filters:
        try:
            wanted = _filter(asked)
        except KafkaError as error:
            results.append(DeleteAclsFilterResult(error_code=error.code, error_message=error.message))
            continue
        found: list[DeleteAclsMatchingAcl] = []
        for number, (id_, acl) in enumerate(view.image.acls.items()):
            if number % _ACLS_PER_STEP == _ACLS_PER_STEP - 1:
                yield
            if wanted.matches(acl):
                found.append(_matching(acl))
                gone[id_] = acl
                if len(gone) > BATCH_LIMIT:
                    raise _invalid(
                        f"Cannot remove more than {BATCH_LIMIT} acls in a single delete operation."
                    )
        results.append(DeleteAclsFilterResult(error_message=None, matching_acls=found))
    records: list[MetadataRecord] = [RemoveAccessControlEntryRecord(id=id_) for id_ in gone]
    return Decision(DeleteAclsResponse(filter_results=results), records)


def _filter(asked: Any) -> AclFilter:
    """The filter of a DescribeAcls request, or one of a DeleteAcls request.  Raises KafkaError INVALID_REQUEST."""
    kinds: tuple[tuple[type[IntEnum], int], ...] = (
        (ResourceType, asked.resource_type_filter),
        (PatternType, asked.pattern_type_filter),
    )
    if any(_word(kind, code) == "UNKNOWN" for kind, code in kinds):
        raise _invalid("Unknown patternFilter.")
    if any(
        _word(kind, code) == "UNKNOWN"
        for kind, code in ((Operation, asked.operation), (Permission, asked.permission_type))
    ):
        raise _invalid("Unknown entryFilter.")
    return AclFilter(
        asked.resource_type_filter,
        asked.resource_name_filter,
        asked.pattern_type_filter,
        asked.principal_filter,
        asked.host_filter,
        asked.operation,
        asked.permission_type,
    )


def _matching(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=acl.resource,
        resource_name=acl.name,
        pattern_type=acl.pattern,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def describe_acls(image: MetadataImage, request: DescribeAclsRequest) -> DescribeAclsResponse:
    """DescribeAcls (key 29): the ACLs that a filter means, by resource."""
    try:
        wanted = _filter(request)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    by_resource: dict[tuple[int, str, int], list[AclDescription]] = {}
    for acl in filter(wanted.matches, image.acls.values()):
        by_resource.setdefault(acl[:3], []).append(
            AclDescription(
                principal=acl.principal,
                host=acl.host,
                operation=acl.operation,
                permission_type=acl.permission,
            )
        )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(resource_type=kind, resource_name=name, pattern_type=pattern, acls=acls)
            for (kind, name, pattern), acls in by_resource.items()
        ],
    )
