"""Records of the coordinators' topics: __consumer_offsets, __transaction_state, __share_group_state.

A key is its type (int16) and the key's message in version 0; a value is its version (int16) and a
message; a record without a value removes the key.  A type we do not know is passed over when loading.
"""

from __future__ import annotations

from typing import TypeVar

from barnabas.errors import WireError
from barnabas.model import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC
from barnabas.ports import Buffer
from barnabas.wire.codec.message import Message, decode, encode
from barnabas.wire.schemas.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from barnabas.wire.schemas.group_records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)
from barnabas.wire.schemas.transaction_records import (
    PartitionsSchema,
    ProducerEntry,
    ProducerSnapshot,
    TransactionLogKey,
    TransactionLogValue,
)

__all__ = [
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionsSchema",
    "ProducerEntry",
    "ProducerSnapshot",
    "TransactionLogKey",
    "TransactionLogValue",
    "read_key",
    "read_value",
    "write_key",
    "write_value",
]

_M = TypeVar("_M", bound=Message)
_KEYS: dict[str, dict[int, type[Message]]] = {}


def _keys_of(topic: str) -> dict[int, type[Message]]:
    """The keys that may stand in a topic, by type."""
    if topic not in _KEYS:
        from barnabas.wire.schemas import (
            group_records,
            share_group_records,
            share_state,
            streams_group_records,
        )
        from barnabas.wire.schemas import transaction_records as transactions

        modules = {
            OFFSETS_TOPIC: (group_records, share_group_records, streams_group_records),
            TRANSACTIONS_TOPIC: (transactions,),
            SHARE_STATE_TOPIC: (share_state,),
        }[topic]
        named = [
            getattr(module, name) for module in modules for name in module.__all__ if name.endswith("Key")
        ]
        _KEYS[topic] = {cls.KEY: cls for cls in named}
    return _KEYS[topic]


def write_key(message: Message) -> bytes:
    """The key of a coordinator's record."""
    assert message.KEY is not None
    return message.KEY.to_bytes(2, "big") + encode(message, 0)


def read_key(data: Buffer, topic: str = OFFSETS_TOPIC) -> Message | None:
    """What a key in `topic` says; None for a type we do not know.  Raises WireError."""
    cls = _keys_of(topic).get(_prefix(data))
    return None if cls is None else decode(cls, data, 0, 2)[0]


def write_value(message: Message, version: int | None = None) -> bytes:
    """The value of a coordinator's record; `version` is the newest unless given."""
    if version is None:
        version = message.VERSIONS[1]
    return version.to_bytes(2, "big") + encode(message, version)


def read_value(cls: type[_M], data: Buffer) -> _M:
    """What a value says.  Raises WireError, also for a version we do not know."""
    return decode(cls, data, _prefix(data), 2)[0]


def _prefix(data: Buffer) -> int:
    if len(data) < 2:
        raise WireError("a coordinator's record is cut off")
    return int.from_bytes(data[:2], "big", signed=True)
