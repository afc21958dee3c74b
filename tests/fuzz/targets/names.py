"""Whom a certificate names, and which user its name is by the rules of `ssl.principal.mapping.rules`."""

from __future__ import annotations

import base64
from collections.abc import Hashable, Iterator

from tests.fuzz.engine.target import Target

from barnabas.errors import ConfigError
from barnabas.security.certificate import UnreadableCertificateError, read_certificate
from barnabas.security.hosts import is_address, plain_host
from barnabas.security.principal import PrincipalRules

__all__ = ["TARGETS"]

CERTIFICATE, RULES, NAME, HOST = 0, 1, 2, 3
_DUKE = b"CN=Duke,OU=ServiceUsers,O=Unknown,L=Unknown,ST=Unknown,C=Unknown"
_KAFKAS = (
    b"RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    b"RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    b"RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,DEFAULT"
)
_CERTIFICATE = base64.b64decode(
    "MIIBXDCCAQKgAwIBAgIBBzAKBggqhkjOPQQDAjBEMRcwFQYDVQQDDA4gRHVrZVw9KywgSW5jLjEcMBoGA1UECgwTQWNtZSwgSW5jLiBv"
    "ZiBCZXJuMQswCQYDVQQGEwJERTAeFw0yNjAxMDEwMDAwMDBaFw0yNzAxMDEwMDAwMDBaMEQxFzAVBgNVBAMMDiBEdWtlXD0rLCBJbmMu"
    "MRwwGgYDVQQKDBNBY21lLCBJbmMuIG9mIEJlcm4xCzAJBgNVBAYTAkRF"
)
"""The beginning of a certificate, up to its key: what is read of one, and what lengths may lie about."""


def _make() -> object:
    rules = PrincipalRules.parse(_KAFKAS.decode())

    def one(data: bytes) -> Hashable:
        kind, rest = (data[0] % 4, data[1:]) if data else (CERTIFICATE, b"")
        if kind == CERTIFICATE:
            subject, names, _, _ = read_certificate(rest)
            rules.name_of(subject)
            return "certificate", len(names), subject.count("+"), "#" in subject
        text = rest.decode("utf-8", "replace")
        if kind == RULES:
            written, _, name = text.partition("\n")
            found = PrincipalRules.parse(written)
            return "rules", repr(found)[:30], found.name_of(name) is None
        if kind == NAME:
            return "name", rules.name_of(text) is None
        spelled = plain_host(text)
        assert plain_host(spelled) == spelled, "one spelling is not the last"
        return "host", is_address(text), ":" in spelled

    return one


def _seeds() -> Iterator[bytes]:
    head = _CERTIFICATE[4:]
    signed = b"\x30\x82" + len(head[4:] + b"\x30\x00").to_bytes(2, "big") + head[4:] + b"\x30\x00"
    yield b"\0" + b"\x30\x82" + len(signed).to_bytes(2, "big") + signed
    yield b"\0" + _CERTIFICATE
    yield bytes((RULES,)) + _KAFKAS + b"\n" + _DUKE
    yield bytes((RULES,)) + rb"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT" + b"\n" + rb"CN=Duke\, Inc,O=x"
    yield bytes((RULES,)) + rb"RULE:^(a+)+$/a\/$1\$$9/U" + b"\n" + b"a" * 60 + b"!"
    yield bytes((NAME,)) + _DUKE
    for host in (b"10.0.0.1", b"::ffff:10.0.0.1", b"fe80::1%eth0", b"0:0:0:0:0:0:0:1", b"a.example"):
        yield bytes((HOST,)) + host


_WORDS = (
    b"RULE:",
    b"DEFAULT",
    b"/L",
    b"/U",
    b"$1",
    b"$9",
    b"\\",
    b"(.*?)",
    b"CN=",
    b"(?i)",
    b"[^,]*",
    b"\\p{L}",
)
_DER = (
    b"\x30\x82",
    b"\x31\x0b",
    b"\x06\x03\x55\x04\x03",
    b"\x0c\x02",
    b"\x17\x0d",
    b"\x18\x0f",
    b"\xa3",
    b"\x06\x03\x55\x1d\x11",
)

TARGETS = [
    Target(
        "names",
        "certificates, mapping rules, distinguished names, addresses",
        _make,  # type: ignore[arg-type]
        (UnreadableCertificateError, ConfigError),
        _seeds,
        _WORDS + _DER,
    )
]
