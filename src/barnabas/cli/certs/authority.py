"""An authority in a directory: its key, its certificate, and the certificates that it signs.

Keys are P-256 and are written to files that only their owner can read.  Nothing here is overwritten: a file that
is there already is an error, because somebody may depend on it.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.errors import ConfigError
from barnabas.extras import to_install

if TYPE_CHECKING:
    from cryptography import x509

__all__ = ["AUTHORITY", "issue", "load", "make_authority"]

AUTHORITY, AUTHORITY_KEY = "ca.pem", "ca.key"
_DAY = datetime.timedelta(days=1)


def _need_cryptography() -> None:
    """Raise ConfigError where the package is not installed."""
    if find_spec("cryptography") is None:
        raise ConfigError(
            "making and reading certificates needs the package cryptography",
            next_step=to_install("security"),
        )


def make_authority(folder: Path, name: str, days: int) -> x509.Certificate:
    """Make key and certificate of an authority in `folder`.  Raises ConfigError where there is one."""
    _need_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    _refuse_existing(folder / AUTHORITY, folder / AUTHORITY_KEY)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = _builder(subject, subject, key.public_key(), days)
    usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
    builder = builder.add_extension(x509.BasicConstraints(True, 0), True).add_extension(usage, True)
    made = _signed(builder, key, key)
    _write(folder / AUTHORITY_KEY, _key_pem(key), 0o600)
    _write(folder / AUTHORITY, _pem(made), 0o644)
    return made


def issue(folder: Path, name: str, hosts: Sequence[str], days: int, target: Path) -> x509.Certificate:
    """Have the authority of `folder` sign a certificate of `name`; `target` gets key, certificate and authority.

    `hosts` are the names and addresses by which a node is dialled; users need none.  Raises ConfigError.
    """
    _need_cryptography()
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    authority, authority_key = _authority(folder)
    _refuse_existing(target)
    key = ec.generate_private_key(ec.SECP256R1())
    ends = (authority.not_valid_after_utc - datetime.datetime.now(datetime.UTC)) // _DAY
    builder = _builder(_name(name), authority.subject, key.public_key(), min(days, max(ends, 0)))
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    purposes = x509.ExtendedKeyUsage(
        [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
    )
    builder = builder.add_extension(x509.BasicConstraints(False, None), True).add_extension(usage, True)
    builder = builder.add_extension(purposes, False)
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), False)
    made = _signed(builder, key, authority_key)
    _write(target, _key_pem(key) + _pem(made) + _pem(authority), 0o600)
    return made


def load(path: Path) -> list[x509.Certificate]:
    """The certificates of a PEM file.  Raises ConfigError, FileNotFoundError."""
    _need_cryptography()
    from cryptography import x509

    content = path.read_bytes()
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise ConfigError(f"{path} has no certificate in PEM", next_step="name a PEM file") from None


def _authority(folder: Path) -> tuple[x509.Certificate, Any]:
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    for path in (folder / AUTHORITY, folder / AUTHORITY_KEY):
        if not path.exists():
            raise ConfigError(
                f"{folder} has no authority: {path.name} is missing",
                next_step=f"make one with `barnabas certs init {folder}`",
            )
    key = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), None)
    return load(folder / AUTHORITY)[0], key


def _refuse_existing(*paths: Path) -> None:
    for path in paths:
        if path.exists():
            raise ConfigError(
                f"{path} exists already", next_step="name another directory, or move that file away"
            )


def _name(name: str) -> x509.Name:
    """A name as `CN=ada,O=Acme`, or what stands for `CN=...` alone."""
    from cryptography import x509

    try:
        return x509.Name.from_rfc4514_string(name if "=" in name else f"CN={name}")
    except ValueError:
        raise ConfigError(f"{name[:100]!r} is no name", next_step="write ada, or CN=ada,O=Acme") from None


def _host(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        address: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        try:
            address = x509.DNSName(host)
        except ValueError:
            raise ConfigError(f"{host[:100]!r} is no host name", next_step="write it in ASCII") from None
    return address


def _builder(subject: x509.Name, issuer: x509.Name, key: Any, days: int) -> x509.CertificateBuilder:
    from cryptography import x509

    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(minutes=5)).not_valid_after(now + days * _DAY)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)


def _signed(builder: x509.CertificateBuilder, key: Any, authority_key: Any) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes

    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return builder.add_extension(above, False).sign(authority_key, hashes.SHA256())


def _pem(certificate: x509.Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    plain = serialization.NoEncryption()
    made: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return made


def _write(path: Path, content: bytes, mode: int) -> None:
    """Write a new file; nobody else can read it at any moment unless `mode` lets them."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
