"""Messages as the JSON that Kafka's own tools print: camelCase names, uuids as text, bytes as base64.

A field that the version does not have is left out, and so is a tagged field that has its default.
"""

from __future__ import annotations

import base64
import json
import re
from typing import Any

from barnabas.model import Uuid
from barnabas.wire.codec.message import Struct

__all__ = ["as_json", "to_text", "type_name"]


def as_json(message: Struct, version: int) -> dict[str, Any]:
    """`as_json(message, 0)` -> what JSON holds of it in that version."""
    content: dict[str, Any] = {}
    for field in type(message).FIELDS:
        value = getattr(message, field.name)
        if field.lives_in(version) and not (field.tag is not None and field.is_default(value)):
            content[_camel(field.name)] = _value(value, version)
    return content


def to_text(content: Any) -> str:
    """`to_text({"a": 1})` -> '{"a":1}', without blanks and with all letters as they are."""
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def type_name(message_name: str) -> str:
    """`type_name("NoOpRecord")` -> "NO_OP_RECORD"."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message_name).upper()


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _value(value: Any, version: int) -> Any:
    if isinstance(value, Struct):
        return as_json(value, version)
    if isinstance(value, list):
        return [_value(item, version) for item in value]
    if isinstance(value, Uuid):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value
