"""The right that a refused client lacks, as the command that grants it."""

from __future__ import annotations

from barnabas.errors import ErrorCode

__all__ = ["granting"]

_RESOURCES = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "--topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "--group",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "--transactional-id",
}


def granting(code: ErrorCode, operation: str, name: str) -> str | None:
    """`granting(TOPIC_AUTHORIZATION_FAILED, "Write", "orders")` -> the next step; None for another code."""
    if code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        resource = "--cluster"
    elif code in _RESOURCES:
        resource = f"{_RESOURCES[code]} {name}"
    else:
        return None
    return (
        f"{operation} is not allowed; let it be granted: "
        f"barnabas acls add {resource} --operation {operation} --allow-principal User:NAME"
    )
