"""Certificates and keys from files: what a TLS context trusts and shows.  Clients and nodes read them alike.

PEM is read as it is.  PKCS12 needs the package `cryptography` (extra `security`); Java's own JKS is refused with
the command that converts it.  A key that OpenSSL takes only from a file passes through one in memory.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from barnabas.client.security.options import Tls
from barnabas.errors import ConfigError
from barnabas.extras import to_install

__all__ = ["authorities", "files_changed", "own_certificate", "show_certificate", "trust"]

_JKS = b"\xfe\xed\xfe\xed"
_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"


def files_changed(tls: Tls) -> tuple[tuple[int, int], ...]:
    """What differs when a file of `tls` is another than before.  Raises ConfigError."""
    return tuple(_changed(name) for name in (tls.ca_file, tls.cert_file, tls.key_file))


def _changed(name: str) -> tuple[int, int]:
    if not name:
        return 0, 0
    try:
        found = os.stat(name)
    except OSError as error:
        raise ConfigError(
            f"cannot read {name}: {error.strerror}", next_step="check the path, here and on workers"
        ) from None
    return found.st_mtime_ns, found.st_ino


def authorities(tls: Tls) -> str | None:
    """The certificates to trust, in PEM; None: the system's."""
    if tls.ca_pem:
        return tls.ca_pem
    if not tls.ca_file:
        return None
    content = _read(tls.ca_file)
    if _kind(tls.ca_file, tls.ca_type, content) == "PEM":
        return content.decode("utf-8", "replace")
    return _from_pkcs12(tls.ca_file, content, tls.ca_password)[0]


def trust(context: ssl.SSLContext, tls: Tls) -> None:
    """Have a context trust the authorities of `tls`, or the system's.  Raises ConfigError."""
    known = authorities(tls)
    if known is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=known)
    except ssl.SSLError:
        raise ConfigError(
            f"{tls.ca_file or 'ssl.truststore.certificates'} has no certificate that can be read",
            next_step="name a PEM or PKCS12 file with one",
        ) from None


def show_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Load what we show of ourselves, if anything.  Raises ConfigError."""
    if not tls.cert_file and not tls.cert_pem:
        return
    where = tls.cert_file or "ssl.keystore.certificate.chain"

    def no_password() -> str:
        raise ConfigError(f"the key of {where} is encrypted", next_step="give ssl.key.password")

    password = tls.key_password or no_password
    content = _read(tls.cert_file) if tls.cert_file else b""
    try:
        if tls.cert_pem:
            with _in_memory(f"{tls.key_pem}\n{tls.cert_pem}") as name:
                context.load_cert_chain(name, password=password)
        elif _kind(tls.cert_file, tls.cert_type, content) == "PEM":
            context.load_cert_chain(tls.cert_file, tls.key_file or None, password)
        else:
            chain, key = _from_pkcs12(tls.cert_file, content, tls.cert_password)
            if not key:
                raise ConfigError(
                    f"{where} has no key", next_step="put certificate and key into one PKCS12 file"
                )
            with _in_memory(key + chain) as name:
                context.load_cert_chain(name)
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or "it cannot be read"
        if reason == "KEY_VALUES_MISMATCH":
            why, hint = (
                "its key does not belong to its certificate",
                "name the key that the certificate was made with",
            )
        elif tls.key_password:
            why, hint = "the key cannot be read", "check ssl.key.password, then the file"
        else:
            why, hint = (
                f"no certificate with its key ({reason})",
                "name a PEM file with both, or ssl.key.location",
            )
        raise ConfigError(f"{where}: {why}", next_step=hint) from None


def own_certificate(tls: Tls) -> bytes:
    """The certificate that is shown, in DER; b"" where none is.  Raises ConfigError."""
    text = tls.cert_pem
    if tls.cert_file:
        content = _read(tls.cert_file)
        if _kind(tls.cert_file, tls.cert_type, content) == "PEM":
            text = content.decode("utf-8", "replace")
        else:
            text = _from_pkcs12(tls.cert_file, content, tls.cert_password)[0]
    begin = text.find(_BEGIN)
    end = text.find(_END, begin)
    return ssl.PEM_cert_to_DER_cert(text[begin : end + len(_END)]) if 0 <= begin < end else b""


def _read(name: str) -> bytes:
    try:
        with open(name, "rb") as file:
            return file.read(16 << 20)
    except OSError as error:
        raise ConfigError(
            f"cannot read {name}: {error.strerror}", next_step="check the path and its rights"
        ) from None


def _kind(name: str, said: str, content: bytes) -> str:
    """PEM or PKCS12, by what was said or by the file.  JKS is refused."""
    if said == "JKS" or content.startswith(_JKS):
        if content.startswith(_JKS):
            converted = f"{name.rpartition('.')[0] or name}.p12"
            raise ConfigError(
                f"{name} is a JKS file, which only Java reads",
                next_step=f"keytool -importkeystore -srckeystore {name} -destkeystore {converted} "
                "-deststoretype PKCS12, then name that file",
            )
        said = ""  # Java says JKS of PKCS12 files, too, and takes them
    return said or ("PKCS12" if content[:1] == b"\x30" else "PEM")


def _from_pkcs12(name: str, content: bytes, password: str) -> tuple[str, str]:
    """Certificates (our own first) and key of a PKCS12 file, in PEM."""
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.serialization import pkcs12
    except ImportError:
        raise ConfigError(
            f"{name} is PKCS12, and reading it needs the package cryptography",
            next_step=f"{to_install('security')}; or give PEM files",
        ) from None
    try:
        found = pkcs12.load_pkcs12(content, password.encode() or None)
    except ValueError:
        raise ConfigError(
            f"{name} cannot be read as PKCS12: wrong password, or damaged",
            next_step="check the store's password option, and the file",
        ) from None
    own = [found.cert] if found.cert is not None else []
    pem = serialization.Encoding.PEM
    chain = "".join(one.certificate.public_bytes(pem).decode() for one in [*own, *found.additional_certs])
    key = b""
    if found.key is not None:
        plain = serialization.NoEncryption()
        key = found.key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return chain, key.decode()


@contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """A name under which OpenSSL reads the text; where the system can, no disk ever has it."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, text.encode())
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600
        file.write(text)
        file.flush()
        yield file.name
