"""Certificates made for one test: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

import pytest

pytest.importorskip("cryptography", reason="pip install cryptography (in the extra dev)")

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


class Authority:
    """`Authority(folder).ca` is its certificate's file."""

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.subject = named(name)
        builder = x509.CertificateBuilder(self.subject, self.subject, self.key.public_key())
        builder = builder.serial_number(1).not_valid_before(NOW - 9 * DAY).not_valid_after(NOW + 9 * DAY)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(x509.BasicConstraints(True, None), True).add_extension(usage, True)
        builder = builder.add_extension(
            x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), False
        )
        self.certificate = builder.sign(self.key, hashes.SHA256())
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self,
        name: str,
        *,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        expired: bool = False,
        early: bool = False,
        password: str = "",
    ) -> Path:
        """A PEM file with a key (encrypted with `password`) and its certificate; beside it the same as PKCS12."""
        key = ec.generate_private_key(ec.SECP256R1())
        end = NOW - DAY if expired else NOW + DAY
        builder = x509.CertificateBuilder(self.subject, named(name), key.public_key())
        builder = (
            builder.serial_number(x509.random_serial_number())
            .not_valid_before(NOW + DAY if early else NOW - 2 * DAY)
            .not_valid_after(NOW + 2 * DAY if early else end)
        )
        names: list[x509.GeneralName] = [
            x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            for host in hosts
        ]
        # (Python 3.13 takes no certificate that does not say whose key signed it, unless told to)
        above = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False).add_extension(above, False)
        certificate = builder.sign(self.key, hashes.SHA256())
        pem = serialization.Encoding.PEM
        hidden: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            hidden = serialization.BestAvailableEncryption(password.encode())
        path = self.folder / f"{name}.pem"
        path.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, hidden)
            + certificate.public_bytes(pem)
            + self.certificate.public_bytes(pem)
        )
        store = serialization.BestAvailableEncryption(b"changeit")
        bundle = pkcs12.serialize_key_and_certificates(
            name.encode(), key, certificate, [self.certificate], store
        )
        path.with_suffix(".p12").write_bytes(bundle)
        return path
