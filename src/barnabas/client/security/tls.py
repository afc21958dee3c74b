"""A TLS context of the standard library's out of our options, and what failed in words.

PEM is read as it is.  PKCS12 needs the package `cryptography` (extra `security`); Java's own JKS is refused with
the command that converts it.  A key that OpenSSL takes only from a file passes through one in memory.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Tls
from barnabas.errors import ConfigError

__all__ = ["context_of", "failure_in_words", "refusal_in_words"]

_JKS = b"\xfe\xed\xfe\xed"


def context_of(tls: Tls) -> ssl.SSLContext:
    """The context for connections to brokers; made anew when a file has changed.  Raises ConfigError."""
    return _context(tls, tuple(_changed(name) for name in (tls.ca_file, tls.cert_file, tls.key_file)))


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


@lru_cache(maxsize=32)
def _context(tls: Tls, changed: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    context.check_hostname = tls.check_host
    context.verify_mode = ssl.CERT_REQUIRED
    authorities = _authorities(tls)
    if authorities is None:
        context.load_default_certs()
    else:
        try:
            context.load_verify_locations(cadata=authorities)
        except ssl.SSLError:
            raise ConfigError(
                f"{tls.ca_file or 'ssl.truststore.certificates'} has no certificate that can be read",
                next_step="name a PEM or PKCS12 file with one",
            ) from None
    _show_certificate(context, tls)
    return context


def _authorities(tls: Tls) -> str | None:
    """The certificates to trust, in PEM; None: the system's."""
    if tls.ca_pem:
        return tls.ca_pem
    if not tls.ca_file:
        return None
    content = _read(tls.ca_file)
    if _kind(tls.ca_file, tls.ca_type, content) == "PEM":
        return content.decode("utf-8", "replace")
    return _from_pkcs12(tls.ca_file, content, tls.ca_password)[0]


def _show_certificate(context: ssl.SSLContext, tls: Tls) -> None:
    """Load what we show of ourselves, if anything."""
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
            next_step="pip install 'barnabas[security]', or give PEM files",
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


# -- what failed -----------------------------------------------------------------------------------

_CLOCK = "check this machine's clock, then renew the broker's certificate"
_CERTIFICATE = {
    9: ("the broker's certificate is not valid yet", _CLOCK),
    10: ("the broker's certificate has expired", _CLOCK),
}
_NAMES = (62, 64)
_ALERTS = {
    "CERTIFICATE_REQUIRED": "the broker asks for a certificate of ours",
    "BAD_CERTIFICATE": "the broker does not take our certificate, or asks for one",
    "UNKNOWN_CA": "the broker does not trust the authority of our certificate",
    "CERTIFICATE_UNKNOWN": "the broker does not take our certificate",
    "CERTIFICATE_EXPIRED": "the broker says that our certificate has expired",
    "HANDSHAKE_FAILURE": "the broker and this client share no cipher, or it asks for a certificate of ours",
    "PROTOCOL_VERSION": "the broker and this client share no version of TLS (we speak 1.2 and 1.3)",
}
_SHOW = "set ssl.keystore.location to a certificate that the broker's truststore knows"
_PLAIN = ("WRONG_VERSION_NUMBER", "UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")


def failure_in_words(error: OSError, address: str, host: str) -> AuthenticationFailed | None:
    """What a TLS handshake failed at; None when the error says nothing about TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why, hint = _certificate(error, host)
    elif isinstance(error, ssl.SSLError) and (alert := _alert(error.reason or "")):
        why, hint = alert, _SHOW
    elif isinstance(error, ssl.SSLEOFError | ConnectionError) or getattr(error, "reason", "") in _PLAIN:
        why = "the listener does not answer in TLS, it is a plain one"
        hint = "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of the TLS listener"
    elif isinstance(error, ssl.SSLError):
        why, hint = f"TLS failed: {error.reason or error}", "see the broker's log for its side"
    else:
        return None
    return AuthenticationFailed(f"{address}: {why}", next_step=hint)


def refusal_in_words(error: OSError, address: str) -> AuthenticationFailed | None:
    """What the broker says of our certificate; with TLS 1.3 that comes after the handshake.  None: nothing."""
    if isinstance(error, ssl.SSLError) and (alert := _alert(error.reason or "")):
        return AuthenticationFailed(f"{address}: {alert}", next_step=_SHOW)
    return None


def _certificate(error: ssl.SSLCertVerificationError, host: str) -> tuple[str, str]:
    code = error.verify_code
    if code in _NAMES:
        return (
            f"the broker's certificate is not for {host}: the host name does not match",
            "connect by a name that the certificate has, or make one with this name among its alternative names",
        )
    return _CERTIFICATE.get(
        code,
        (
            f"the broker's certificate is not trusted ({error.verify_message})",
            "set ssl.truststore.location (or ssl.ca.location) to the certificate of the authority that signed it",
        ),
    )


def _alert(reason: str) -> str | None:
    if "ALERT" not in reason:
        return None
    return next((words for name, words in _ALERTS.items() if reason.endswith(name)), None)
