"""Names of what has settings: topics, brokers, groups, telemetry subscriptions (ListConfigResources, KIP-1142)."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.configs import ListConfigResourcesRequest

__all__ = ["NamedResource", "resources_of"]

_KINDS = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}


class NamedResource(NamedTuple):
    """Something that has settings."""

    kind: str
    name: str


@for_both
async def resources_of(cluster: AnyCluster, kind: str | None = None) -> list[NamedResource]:
    """`resources_of(cluster, "group")` -> what has settings of its own (None: of every kind)."""
    wanted = [number for number, name in _KINDS.items() if kind is None or name == kind]
    response = await cluster.ask(ListConfigResourcesRequest(resource_types=wanted))
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), f"{kind or 'resources'} cannot be listed")
    found = [
        NamedResource(_KINDS.get(r.resource_type, "?"), r.resource_name) for r in response.config_resources
    ]
    return sorted(found)
