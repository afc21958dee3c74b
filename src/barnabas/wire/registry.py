"""Which API has which key, versions and module.  Importing this loads no family of messages.

A family (`produce`, `fetch`, ...) is imported when one of its classes is asked for, so that a node that
starts loads only what it serves.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import NamedTuple

from barnabas.errors import UnknownMessageError, WireError
from barnabas.wire.apis import ROWS
from barnabas.wire.codec.message import Message, MetadataRecord

__all__ = [
    "API",
    "API_NAMES",
    "OWN_ROWS",
    "Api",
    "record_class",
    "request_class",
    "request_header_version",
    "response_class",
    "response_header_version",
]

API_VERSIONS_KEY = 18


class Api(NamedTuple):
    """An API: the versions our codec knows (`first` to `last`, `flexible` is the first flexible one).

    `unstable` says that the last version is not finished in Apache Kafka 4.4.0 and must not be advertised.
    """

    key: int
    name: str
    module: str
    first: int
    last: int
    flexible: int
    unstable: bool

    @property
    def last_stable(self) -> int:
        """The last version that may be advertised."""
        return self.last - self.unstable


OWN_ROWS = (
    (10_642, "ExchangeEndpoints", "own", 0, 0, 0, False),
    (10_643, "BootstrapQuorum", "own", 0, 0, 0, False),
)
"""APIs that only our nodes know."""
API: dict[int, Api] = {row[0]: Api(*row) for row in (*ROWS, *OWN_ROWS)}
API_NAMES: dict[int, str] = {api.key: api.name for api in API.values()}


@cache
def request_class(key: int) -> type[Message]:
    """The request of an API.  Raises WireError for an unknown key."""
    return _load(key, "Request")


@cache
def response_class(key: int) -> type[Message]:
    """The response of an API.  Raises WireError for an unknown key."""
    return _load(key, "Response")


def _load(key: int, kind: str) -> type[Message]:
    api = API.get(key)
    if api is None:
        raise WireError(f"there is no API with the key {key}")
    found: type[Message] = getattr(import_module(f"barnabas.wire.schemas.{api.module}"), api.name + kind)
    return found


@cache
def record_class(type_: int) -> type[MetadataRecord]:
    """The metadata record of a type.  Raises WireError for an unknown one."""
    from barnabas.wire.schemas import metadata_records

    for name in metadata_records.__all__:
        found: type[MetadataRecord] = getattr(metadata_records, name)
        if issubclass(found, MetadataRecord) and type_ == found.KEY:
            return found
    raise UnknownMessageError(f"there is no metadata record of type {type_}")


def request_header_version(key: int, version: int) -> int:
    """2 where the request is flexible (its header ends with tagged fields), else 1."""
    return 2 if version >= API[key].flexible else 1


def response_header_version(key: int, version: int) -> int:
    """1 where the response is flexible, else 0; always 0 for ApiVersions, whose readers cannot know."""
    return 1 if version >= API[key].flexible and key != API_VERSIONS_KEY else 0
