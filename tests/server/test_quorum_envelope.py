"""Envelopes: principals as Kafka's brokers write them."""

from __future__ import annotations

import pytest

from barnabas.errors import ErrorCode, KafkaError
from barnabas.server.kraft.codec.envelope import came_by_token, principal_bytes, principal_of


def test_a_principal_is_written_as_kafka_writes_it() -> None:
    """DefaultPrincipalData v0: int16 version, type and name compact, token flag, no tags."""
    assert principal_bytes("User:ANONYMOUS") == b"\0\0" + b"\x05User" + b"\x0aANONYMOUS" + b"\0\0"


@pytest.mark.parametrize("name", ["User:ANONYMOUS", "User:alice", "User:CN=a:b,O=c", "User:" + "x" * 300])
def test_a_principal_keeps_its_name(name: str) -> None:
    assert principal_of(principal_bytes(name)) == name


@pytest.mark.parametrize("data", [None, b"", b"\0\1", b"\0\0", b"\0\0\0", b"\0\0\x05Us", b"\0\0\x05User\xff"])
def test_a_principal_that_cannot_be_read_is_refused(data: bytes | None) -> None:
    with pytest.raises(KafkaError) as caught:
        principal_of(data)
    assert caught.value.code is ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE


def test_an_envelope_says_who_came_by_a_delegation_token() -> None:
    for by_token in (False, True):
        data = principal_bytes("User:ada", by_token)
        assert came_by_token(data) is by_token and principal_of(data) == "User:ada"
    assert principal_bytes("User:ada", True).endswith(b"\x01\0"), "as Apache Kafka writes it"
