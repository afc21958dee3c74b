"""What a node reads of a certificate: the name as Java spells it, and until when it is valid."""

from __future__ import annotations

import contextlib
import datetime
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.client.certificates import NOW, x509

from barnabas.security.certificate import UnreadableCertificateError, read_certificate

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(
    *parts: x509.NameAttribute | x509.RelativeDistinguishedName, hosts: tuple[str, ...] = ()
) -> bytes:
    relative = [
        p if isinstance(p, x509.RelativeDistinguishedName) else x509.RelativeDistinguishedName([p])
        for p in parts
    ]
    name = x509.Name(relative)
    builder = x509.CertificateBuilder(name, name, KEY.public_key(), 7, NOW, NOW + datetime.timedelta(days=3))
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_a_name_is_spelled_as_java_does() -> None:
    """Hundreds of drawn names are compared with a JVM in tests/compat/test_tls_listeners.py."""
    name = certificate(
        x509.NameAttribute(NameOID.COUNTRY_NAME, "DE"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Acme, Inc."),
        x509.NameAttribute(NameOID.COMMON_NAME, " Duke\\=+"),
        x509.NameAttribute(NameOID.EMAIL_ADDRESS, "d@x"),
    )
    found = read_certificate(name)
    assert found.subject == "1.2.840.113549.1.9.1=#1603644078,CN=\\ Duke\\\\\\=\\+,O=Acme\\, Inc.,C=DE"


def test_several_attributes_of_one_part_are_joined_by_a_plus() -> None:
    both = x509.RelativeDistinguishedName(
        [x509.NameAttribute(NameOID.COMMON_NAME, "a"), x509.NameAttribute(NameOID.USER_ID, "b")]
    )
    assert set(re.split(r"\+", read_certificate(certificate(both)).subject)) == {"CN=a", "UID=b"}


def test_alternative_names_and_the_end_are_found() -> None:
    name = x509.NameAttribute(NameOID.COMMON_NAME, "a")
    few, more = (read_certificate(certificate(name, hosts=hosts)) for hosts in (("a",), ("b", "a")))
    assert few.names < more.names
    assert few.ends - few.begins == 3 * 86400
    assert abs(few.begins - NOW.timestamp()) < 1


@given(st.binary(max_size=80))
def test_senseless_bytes_are_no_certificate(data: bytes) -> None:
    with pytest.raises(UnreadableCertificateError):
        read_certificate(data)


@given(st.integers(0, 300), st.integers(0, 255))
def test_a_changed_certificate_is_read_or_refused(at: int, byte: int) -> None:
    whole = bytearray(WHOLE)
    whole[at % len(whole)] = byte
    with contextlib.suppress(UnreadableCertificateError):
        read_certificate(bytes(whole))


WHOLE = certificate(
    x509.NameAttribute(NameOID.COMMON_NAME, "Zoë", _type=_ASN1Type.UTF8String), hosts=("a.b",)
)


def test_letters_of_other_languages_stay_letters() -> None:
    assert read_certificate(WHOLE).subject == "CN=Zoë"
