"""Settings and features of the cluster.

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Bool, Int8, Int16, Int32, String, since
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AlterConfigsRequest",
    "AlterConfigsRequestAlterConfigsResource",
    "AlterConfigsRequestAlterableConfig",
    "AlterConfigsResponse",
    "AlterConfigsResponseAlterConfigsResourceResponse",
    "ConfigResource",
    "DescribeConfigsRequest",
    "DescribeConfigsResource",
    "DescribeConfigsResourceResult",
    "DescribeConfigsResponse",
    "DescribeConfigsResult",
    "DescribeConfigsSynonym",
    "FeatureUpdateKey",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsRequestAlterConfigsResource",
    "IncrementalAlterConfigsRequestAlterableConfig",
    "IncrementalAlterConfigsResponse",
    "IncrementalAlterConfigsResponseAlterConfigsResourceResponse",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "UpdatableFeatureResult",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    """Ask for settings."""

    resources: Array[DescribeConfigsResource] = []
    include_synonyms: Bool = False
    include_documentation: Bool = since(3, default=False)


class DescribeConfigsResource(Struct):
    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: Array[String] | None = []


class DescribeConfigsResponse(Message, key=32, versions="1-4", flexible="4+"):
    """Settings with their sources."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = []


class DescribeConfigsResult(Struct):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = []


class DescribeConfigsResourceResult(Struct):
    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = -1
    is_sensitive: Bool = False
    synonyms: Array[DescribeConfigsSynonym] = []
    config_type: Int8 = since(3, default=0, ignorable=True)
    documentation: String | None = since(3, default="", ignorable=True)


class DescribeConfigsSynonym(Struct):
    name: String = ""
    value: String | None = ""
    source: Int8 = 0


class AlterConfigsRequest(Message, key=33, versions="0-2", flexible="2+"):
    """Replace all settings of resources."""

    resources: Array[AlterConfigsRequestAlterConfigsResource] = []
    validate_only: Bool = False


class AlterConfigsRequestAlterConfigsResource(Struct, called="AlterConfigsResource"):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[AlterConfigsRequestAlterableConfig] = []


class AlterConfigsRequestAlterableConfig(Struct, called="AlterableConfig"):
    name: String = ""
    value: String | None = ""


class AlterConfigsResponse(Message, key=33, versions="0-2", flexible="2+"):
    """Result per resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[AlterConfigsResponseAlterConfigsResourceResponse] = []


class AlterConfigsResponseAlterConfigsResourceResponse(Struct, called="AlterConfigsResourceResponse"):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    """Change single settings (KIP-339)."""

    resources: Array[IncrementalAlterConfigsRequestAlterConfigsResource] = []
    validate_only: Bool = False


class IncrementalAlterConfigsRequestAlterConfigsResource(Struct, called="AlterConfigsResource"):
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[IncrementalAlterConfigsRequestAlterableConfig] = []


class IncrementalAlterConfigsRequestAlterableConfig(Struct, called="AlterableConfig"):
    name: String = ""
    config_operation: Int8 = 0
    value: String | None = ""


class IncrementalAlterConfigsResponse(Message, key=44, versions="0-1", flexible="1+"):
    """Result per resource."""

    throttle_time_ms: Int32 = 0
    responses: Array[IncrementalAlterConfigsResponseAlterConfigsResourceResponse] = []


class IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
    Struct, called="AlterConfigsResourceResponse"
):
    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    """Ask what has settings (KIP-714, KIP-1142)."""

    resource_types: Array[Int8] = since(1, default=[])


class ListConfigResourcesResponse(Message, key=74, versions="0-1", flexible="0+"):
    """Names of things that have settings."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    config_resources: Array[ConfigResource] = []


class ConfigResource(Struct):
    resource_name: String = ""
    resource_type: Int8 = since(1, default=16, ignorable=True)


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    """Raise or lower feature levels (KIP-584)."""

    timeout_ms: Int32 = 60000
    feature_updates: Array[FeatureUpdateKey] = []
    validate_only: Bool = since(1, default=False)


class FeatureUpdateKey(Struct):
    feature: String = ""
    max_version_level: Int16 = 0
    allow_downgrade: Bool = since(0, default=False, until=0)
    upgrade_type: Int8 = since(1, default=1)


class UpdateFeaturesResponse(Message, key=57, versions="0-2", flexible="0+"):
    """Result per feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Array[UpdatableFeatureResult] = since(0, default=[], until=1, ignorable=True)


class UpdatableFeatureResult(Struct):
    feature: String = ""
    error_code: Int16 = 0
    error_message: String | None = ""
