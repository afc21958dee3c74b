"""Refusals as an answer of DescribeAcls shows them."""

from __future__ import annotations

from barnabas.security.refusals import Refusals
from barnabas.wire.schemas.acls import AclRefusal

__all__ = ["shown"]


def shown(refusals: Refusals) -> list[AclRefusal]:
    """Everything that is remembered, the newest first."""
    return [
        AclRefusal(
            principal=one.principal,
            host=one.host,
            operation=one.operation,
            resource_type=one.resource,
            resource_name=one.name,
            times=one.times,
            last_ms=one.last_ms,
            api=one.api,
            rule=one.rule,
        )
        for one in refusals.latest()
    ]
