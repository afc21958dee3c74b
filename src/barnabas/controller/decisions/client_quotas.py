"""Quotas of clients: AlterClientQuotas, a decision, and DescribeClientQuotas, an answer from the image (KIP-546).

A quota belongs to an entity: a user, a client id, both, or an IP address; the name None is the default of that
type.  Each entity of a request succeeds or fails as a whole.
"""

from __future__ import annotations

from collections import Counter
from ipaddress import ip_address
from math import isfinite

from barnabas.controller.image import MetadataImage, QuotaEntity
from barnabas.controller.view import BATCH_LIMIT, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import ClientQuotaRecord, EntityData
from barnabas.wire.schemas.quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntityData,
    DescribeClientQuotasResponseEntryData,
    OpData,
    ValueData,
)

__all__ = ["alter_client_quotas", "describe_client_quotas"]

USER, CLIENT, IP = "user", "client-id", "ip"
CLIENT_KEYS: dict[str, int | None] = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "request_percentage": None,
    "controller_mutation_rate": None,
}
IP_KEYS: dict[str, int | None] = {"connection_creation_rate": 2**31 - 1}
"""What can be limited, and the largest value; None: any number, not only a whole one."""
EXACT, DEFAULT, ANY = 0, 1, 2
"""How a component of a filter matches."""
_LONGEST_NAME = 32767
_ROUNDING = 1e-6


def alter_client_quotas(view: View, request: AlterClientQuotasRequest) -> Decision:
    """AlterClientQuotas (key 49): set and remove limits; nothing is written for what is there already."""
    asked = {_entity_of(entry): entry for entry in request.entries}  # (one row for each, as in Kafka)
    repeated = {
        e for e, count in Counter(_entity_of(entry) for entry in request.entries).items() if count > 1
    }
    records: list[MetadataRecord] = []
    rows: list[AlterClientQuotasResponseEntryData] = []
    for entity, entry in asked.items():
        code, message = ErrorCode.NONE, None
        try:
            if entity in repeated:
                raise _invalid("the entity is in the request more than once")
            changed = _changed(view.image.client_quotas.get(entity, {}), entry)
            if len(records) + len(changed) > BATCH_LIMIT:
                raise KafkaError(
                    ErrorCode.POLICY_VIOLATION, f"one request may change at most {BATCH_LIMIT} quotas"
                )
            records += changed
        except KafkaError as error:
            code, message = error.code, error.message
        named = [
            AlterClientQuotasResponseEntityData(entity_type=part.entity_type, entity_name=part.entity_name)
            for part in entry.entity
        ]
        rows.append(AlterClientQuotasResponseEntryData(error_code=code, error_message=message, entity=named))
    return Decision(AlterClientQuotasResponse(entries=rows), [] if request.validate_only else records)


def _entity_of(entry: AlterClientQuotasRequestEntryData) -> QuotaEntity:
    return frozenset((part.entity_type, part.entity_name) for part in entry.entity)


def _changed(before: dict[str, float], entry: AlterClientQuotasRequestEntryData) -> list[MetadataRecord]:
    """The records of one entity.  Raises KafkaError(INVALID_REQUEST)."""
    keys = _keys_of(entry.entity)
    for key, count in Counter(op.key for op in entry.ops).items():
        if count > 1:
            raise _invalid(f"{key} is in the request more than once")
    records: list[MetadataRecord] = []
    for op in entry.ops:
        if not op.remove:
            _check_value(keys, op)
        if (op.key in before) if op.remove else before.get(op.key) != op.value:
            named = [EntityData(entity_type=p.entity_type, entity_name=p.entity_name) for p in entry.entity]
            value = 0.0 if op.remove else op.value
            records.append(ClientQuotaRecord(entity=named, key=op.key, value=value, remove=op.remove))
    return records


def _keys_of(parts: list[AlterClientQuotasRequestEntityData]) -> dict[str, int | None]:
    """What can be limited of such an entity."""
    types = [part.entity_type for part in parts]
    if not types:
        raise _invalid("the entity is empty")
    for part in parts:
        if part.entity_type not in (USER, CLIENT, IP):
            raise _invalid(f"there is no entity type {part.entity_type[:40]!r}")
        if types.count(part.entity_type) > 1:
            raise _invalid(f"the entity has more than one {part.entity_type}")
        if part.entity_name == "":
            raise _invalid(f"the name of the {part.entity_type} is empty")
        if part.entity_name is not None and len(part.entity_name.encode()) > _LONGEST_NAME:
            raise _invalid(f"the name of the {part.entity_type} is too long")
    if IP not in types:
        return CLIENT_KEYS
    if len(types) > 1:
        raise _invalid("an ip cannot be limited together with a user or client id")
    _check_address(parts[0].entity_name)
    return IP_KEYS


def _check_address(name: str | None) -> None:
    try:
        if name is not None:
            ip_address(name)
    except ValueError:
        raise _invalid(f"{name} is not a valid IP address") from None


def _check_value(keys: dict[str, int | None], op: OpData) -> None:
    if op.key not in keys:
        raise _invalid(f"there is no quota {op.key[:60]!r} for such an entity; there are {', '.join(keys)}")
    if not isfinite(op.value) or op.value <= 0:
        raise _invalid(f"the quota {op.key} must be greater than 0")
    most = keys[op.key]
    if most is not None and op.value > most:
        raise _invalid(f"the quota {op.key} is {most} at most")
    if most is not None and abs(op.value - round(op.value)) > _ROUNDING:
        raise _invalid(f"the quota {op.key} must be a whole number")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def describe_client_quotas(
    image: MetadataImage, request: DescribeClientQuotasRequest
) -> DescribeClientQuotasResponse:
    """DescribeClientQuotas (key 48): the quotas of the entities that match every component of the filter.

    `strict`: of entities without further types.  A filter that means nothing is answered with an error.
    """
    try:
        return DescribeClientQuotasResponse(entries=_matching(image, request))
    except KafkaError as error:
        return DescribeClientQuotasResponse(error_code=error.code, error_message=error.message, entries=None)


def _matching(
    image: MetadataImage, request: DescribeClientQuotasRequest
) -> list[DescribeClientQuotasResponseEntryData]:
    exact: dict[str, str | None] = {}
    types: set[str] = set()
    for component in request.components:
        kind = component.entity_type
        if not kind:
            raise _invalid("a component has no entity type")
        if kind in exact or kind in types:
            raise _invalid(f"the entity type {kind[:40]} is in the filter more than once")
        if kind not in (USER, CLIENT, IP):
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"there is no entity type {kind[:40]!r}")
        if (component.match is None) is (component.match_type == EXACT):
            raise _invalid("an exact match has a name, and no other match has one")
        if component.match_type in (EXACT, DEFAULT):
            exact[kind] = component.match
        elif component.match_type == ANY:
            types.add(kind)
        else:
            raise _invalid(f"there is no match type {component.match_type}")
    asked = exact.keys() | types
    if IP in asked and len(asked) > 1:
        raise _invalid("an ip cannot be combined with a user or client id")
    entries = []
    for entity, values in image.client_quotas.items():
        named = dict(entity)
        if request.strict and named.keys() != asked:
            continue
        if types <= named.keys() and all(k in named and named[k] == exact[k] for k in exact):
            entries.append(_described(named, values))
    return entries


def _described(
    named: dict[str, str | None], values: dict[str, float]
) -> DescribeClientQuotasResponseEntryData:
    return DescribeClientQuotasResponseEntryData(
        entity=[
            DescribeClientQuotasResponseEntityData(entity_type=kind, entity_name=name)
            for kind, name in sorted(named.items())
        ],
        values=[ValueData(key=key, value=value) for key, value in sorted(values.items())],
    )
