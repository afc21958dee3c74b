"""Which topic names are allowed: 1 to 249 of `[a-zA-Z0-9._-]`, neither `.` nor `..`.

Two names that differ only in `.` and `_` collide: metrics cannot tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import METADATA_TOPIC

__all__ = ["MAX_LENGTH", "check_topic_name", "collision", "is_valid"]

MAX_LENGTH = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+\Z")


def is_valid(name: str) -> bool:
    """Whether a topic could have this name."""
    return 0 < len(name) <= MAX_LENGTH and name not in (".", "..") and _LEGAL.match(name) is not None


def check_topic_name(name: str) -> None:
    """Raise KafkaError(INVALID_TOPIC_EXCEPTION or INVALID_REQUEST) for a name that cannot be created."""
    if name == METADATA_TOPIC:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{METADATA_TOPIC} is the quorum's own topic")
    if is_valid(name):
        return
    if not name:
        why = "it is empty"
    elif name in (".", ".."):
        why = "it cannot be . or .."
    elif len(name) > MAX_LENGTH:
        why = f"it has {len(name)} characters, more than {MAX_LENGTH}"
    else:
        why = "only ASCII letters, digits, '.', '_' and '-' are allowed"
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic name {name!r} is invalid: {why}")


def collision(name: str, others: Iterable[str]) -> str | None:
    """The first of `others` that equals `name` once dots are underscores (and is not `name`)."""
    if "." not in name and "_" not in name:
        return None
    folded = name.replace(".", "_")
    for other in others:
        if other != name and len(other) == len(name) and other.replace(".", "_") == folded:
            return other
    return None
