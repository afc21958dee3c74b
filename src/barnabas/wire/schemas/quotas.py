"""Quotas of clients (KIP-546).

Declarations printed by tools/print_messages.py; change that, not this.
"""

from __future__ import annotations

from barnabas.wire.codec.declaration import Array, Bool, Float64, Int8, Int16, Int32, String
from barnabas.wire.codec.message import Message, Struct

__all__ = [
    "AlterClientQuotasRequest",
    "AlterClientQuotasRequestEntityData",
    "AlterClientQuotasRequestEntryData",
    "AlterClientQuotasResponse",
    "AlterClientQuotasResponseEntityData",
    "AlterClientQuotasResponseEntryData",
    "ComponentData",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClientQuotasResponseEntityData",
    "DescribeClientQuotasResponseEntryData",
    "OpData",
    "ValueData",
]


class DescribeClientQuotasRequest(Message, key=48, versions="0-1", flexible="1+"):
    """Ask for quotas."""

    components: Array[ComponentData] = []
    strict: Bool = False


class ComponentData(Struct):
    entity_type: String = ""
    match_type: Int8 = 0
    match: String | None = ""


class DescribeClientQuotasResponse(Message, key=48, versions="0-1", flexible="1+"):
    """Quotas by entity."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    entries: Array[DescribeClientQuotasResponseEntryData] | None = []


class DescribeClientQuotasResponseEntryData(Struct, called="EntryData"):
    entity: Array[DescribeClientQuotasResponseEntityData] = []
    values: Array[ValueData] = []


class DescribeClientQuotasResponseEntityData(Struct, called="EntityData"):
    entity_type: String = ""
    entity_name: String | None = ""


class ValueData(Struct):
    key: String = ""
    value: Float64 = 0.0


class AlterClientQuotasRequest(Message, key=49, versions="0-1", flexible="1+"):
    """Change quotas."""

    entries: Array[AlterClientQuotasRequestEntryData] = []
    validate_only: Bool = False


class AlterClientQuotasRequestEntryData(Struct, called="EntryData"):
    entity: Array[AlterClientQuotasRequestEntityData] = []
    ops: Array[OpData] = []


class AlterClientQuotasRequestEntityData(Struct, called="EntityData"):
    entity_type: String = ""
    entity_name: String | None = ""


class OpData(Struct):
    key: String = ""
    value: Float64 = 0.0
    remove: Bool = False


class AlterClientQuotasResponse(Message, key=49, versions="0-1", flexible="1+"):
    """Result per entity."""

    throttle_time_ms: Int32 = 0
    entries: Array[AlterClientQuotasResponseEntryData] = []


class AlterClientQuotasResponseEntryData(Struct, called="EntryData"):
    error_code: Int16 = 0
    error_message: String | None = ""
    entity: Array[AlterClientQuotasResponseEntityData] = []


class AlterClientQuotasResponseEntityData(Struct, called="EntityData"):
    entity_type: String = ""
    entity_name: String | None = ""
