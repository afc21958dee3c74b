"""The question for the settings of one broker, and what the answer tells."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.wire.schemas.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

__all__ = ["request_of", "values_of"]

_BROKER = 4
"""The protocol's number of brokers among what has settings."""


def request_of(broker: int, names: Iterable[str] | None = None) -> DescribeConfigsRequest:
    """Ask a broker for these settings of its own, or for all of them.  It answers for itself only."""
    keys = None if names is None else list(names)
    asked = DescribeConfigsResource(resource_type=_BROKER, resource_name=str(broker), configuration_keys=keys)
    return DescribeConfigsRequest(resources=[asked])


def values_of(answer: DescribeConfigsResponse) -> dict[str, str | None]:
    """Return each setting's value; nothing where the right to see them is missing."""
    return {one.name: one.value for result in answer.results for one in result.configs}
