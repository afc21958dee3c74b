"""Answers without what their server chose.

Producer ids are named by the order in which they were heard, made-up member ids by whose they are.  There are no
times and no words, and lists are sorted where Apache Kafka's order is that of a hash table.
"""

from __future__ import annotations

import json
from typing import Any

from tests.compat.side_by_side.side import Side

from barnabas.errors import ErrorCode, WireError
from barnabas.model import Uuid
from barnabas.wire.codec.message import Message, Struct, decode
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolAssignment

__all__ = ["form", "named_code"]

DROPPED = {
    "throttle_time_ms",
    "error_message",
    "last_timestamp",
    "log_append_time_ms",
    "client_host",
    "current_leader",
}
ONLY_SIGN = {"transaction_start_time_ms", "coordinator_epoch"}
NO_ORDER = {
    "active_producers",
    "assigned_partitions",
    "groups",
    "members",
    "partitions",
    "results",
    "results_by_partition",
    "subscribed_topic_names",
    "topic_partitions",
    "transaction_states",
    "unknown_state_filters",
}
"""Lists by the name of their field."""
ANY_ORDER = {
    "DescribeTransactionsResponseTransactionState",
    "OffsetFetchResponse",
    "OffsetFetchResponseGroup",
    "TopicData",
}
"""Whose lists have no order."""
LISTS = {"ListTransactionsResponse": "transaction_states", "ListGroupsResponse": "groups"}
"""Answers that tell of other sequences, too."""
NAME_OF = {"transaction_states": "transactional_id", "groups": "group_id"}


def form(answer: Message | Struct, side: Side) -> Any:
    """The answer as both servers should have it."""
    found: dict[str, Any] = {}
    for field in type(answer).FIELDS:
        name, value = field.name, getattr(answer, field.name)
        if name in DROPPED:
            continue
        if LISTS.get(type(answer).__name__) == name:
            own = [one for one in value if getattr(one, NAME_OF[name]).startswith(f"{side.prefix}-")]
            value = sorted(own, key=lambda one: getattr(one, NAME_OF[name]))
        if name == "active_producers":
            value = sorted(value, key=lambda one: one.producer_id)
        found[name] = _value(name, value, side)
        if type(answer).__name__ in ANY_ORDER and isinstance(value, list):
            found[name] = sorted(found[name], key=lambda one: json.dumps(one, sort_keys=True))
        if name in NO_ORDER and type(answer).__name__ != "LeaveGroupResponse":
            found[name] = sorted(found[name] or [], key=lambda one: json.dumps(one, sort_keys=True))
    return found


def _value(name: str, value: Any, side: Side) -> Any:
    if isinstance(value, Struct):
        return form(value, side)
    if isinstance(value, Uuid):
        return next((f"id of {name}" for name, id in side.topics.items() if id == value), str(value))
    if isinstance(value, list | tuple):
        return [_value(name, one, side) for one in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return _assigned(bytes(value)) if name.endswith("assignment") else bytes(value).hex()
    if name.endswith("error_code"):
        return named_code(value)
    if name in ("producer_id", "ongoing_txn_producer_id"):
        return side.producer_number(value)
    if name in ONLY_SIGN:
        return (value > 0) - (value < 0) if name.endswith("ms") else value >= 0
    return side.symbol(value) if isinstance(value, str) else value


def named_code(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def _assigned(raw: bytes) -> Any:
    """An assignment as clients write it, else its bytes."""
    try:
        version = int.from_bytes(raw[:2], "big")
        told = decode(ConsumerProtocolAssignment, raw, version, 2)[0]
    except (WireError, IndexError, KeyError):
        return raw.hex()
    return {one.topic: sorted(one.partitions) for one in told.assigned_partitions}
