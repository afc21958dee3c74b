"""Quotas of users, client ids and addresses, as an administrator sees and changes them (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.client.for_both import AnyCluster, for_both
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.schemas.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    OpData,
)

__all__ = ["Entity", "EntityQuotas", "alter_quotas", "quotas_of"]

Entity = Mapping[str, str | None]
"""Whom a quota limits: {"user": "alice", "client-id": None}; None is the default of that type."""

_EXACT, _DEFAULT = 0, 1


class EntityQuotas(NamedTuple):
    """The quotas of one entity: {"producer_byte_rate": 1048576.0}."""

    entity: dict[str, str | None]
    quotas: dict[str, float]


@for_both
async def quotas_of(cluster: AnyCluster, entity: Entity | None = None) -> list[EntityQuotas]:
    """`quotas_of(cluster, {"user": "alice"})` -> the quotas of entities that include this one (None: of all)."""
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in (entity or {}).items()
    ]
    response = await cluster.ask(DescribeClientQuotasRequest(components=components))
    if response.error_code:
        raise KafkaError(ErrorCode(response.error_code), response.error_message or "the filter was refused")
    found = [
        EntityQuotas(
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in response.entries or []
    ]
    return sorted(found, key=lambda one: sorted((kind, name or "") for kind, name in one.entity.items()))


@for_both
async def alter_quotas(
    cluster: AnyCluster,
    entity: Entity,
    change: Mapping[str, float] | None = None,
    *,
    remove: Iterable[str] = (),
    validate_only: bool = False,
) -> None:
    """`alter_quotas(cluster, {"client-id": "etl"}, {"producer_byte_rate": 1048576})`; `remove`: quotas that go.

    The name None stands for the default of that type: {"user": None}.
    """
    ops = [OpData(key=key, value=float(value)) for key, value in (change or {}).items()]
    ops += [OpData(key=key, remove=True) for key in remove]
    parts = [AlterClientQuotasRequestEntityData(entity_type=k, entity_name=n) for k, n in entity.items()]
    entry = AlterClientQuotasRequestEntryData(entity=parts, ops=ops)
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)

    async def attempt() -> None:
        for row in (await (await cluster.any()).request(request)).entries:
            if row.error_code:
                raise KafkaError(
                    ErrorCode(row.error_code),
                    row.error_message or "the quotas were refused",
                    next_step="write a quota with a number above 0, for example producer_byte_rate=1048576",
                )

    await cluster.retrying(attempt)
