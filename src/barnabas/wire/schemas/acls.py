"""Who may do what.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import OWN_TAG, Array, Bool, Int8, Int16, Int32, Int64, String, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AclCreation",
    "AclCreationResult",
    "AclDescription",
    "AclRefusal",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "DeleteAclsFilter",
    "DeleteAclsFilterResult",
    "DeleteAclsMatchingAcl",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResource",
    "DescribeAclsResponse",
]


class DescribeAclsRequest(Message, key=29, versions="1-3", flexible="2+"):
    """Ask for rules."""

    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
    why: Bool = since(2, default=False, tag=OWN_TAG, ignorable=True)


class DescribeAclsResponse(Message, key=29, versions="1-3", flexible="2+"):
    """Rules by resource."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    resources: Array[DescribeAclsResource] = []
    refusals: Array[AclRefusal] = since(2, default=[], tag=OWN_TAG, ignorable=True)


class AclRefusal(Struct):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    resource_type: Int8 = 0
    resource_name: String = ""
    times: Int64 = 0
    last_ms: Int64 = 0
    api: Int32 = 0
    rule: String = ""


class DescribeAclsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    acls: Array[AclDescription] = []


class AclDescription(Struct):
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsRequest(Message, key=30, versions="1-3", flexible="2+"):
    """Add rules."""

    creations: Array[AclCreation] = []


class AclCreation(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    resource_pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class CreateAclsResponse(Message, key=30, versions="1-3", flexible="2+"):
    """Result per rule."""

    throttle_time_ms: Int32 = 0
    results: Array[AclCreationResult] = []


class AclCreationResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""


class DeleteAclsRequest(Message, key=31, versions="1-3", flexible="2+"):
    """Remove the rules that filters match."""

    filters: Array[DeleteAclsFilter] = []


class DeleteAclsFilter(Struct):
    resource_type_filter: Int8 = 0
    resource_name_filter: String | None = ""
    pattern_type_filter: Int8 = 3
    principal_filter: String | None = ""
    host_filter: String | None = ""
    operation: Int8 = 0
    permission_type: Int8 = 0


class DeleteAclsResponse(Message, key=31, versions="1-3", flexible="2+"):
    """What each filter removed."""

    throttle_time_ms: Int32 = 0
    filter_results: Array[DeleteAclsFilterResult] = []


class DeleteAclsFilterResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    matching_acls: Array[DeleteAclsMatchingAcl] = []


class DeleteAclsMatchingAcl(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    pattern_type: Int8 = 3
    principal: String = ""
    host: String = ""
    operation: Int8 = 0
    permission_type: Int8 = 0
