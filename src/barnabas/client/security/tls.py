"""A client's TLS context out of our options, and what failed in words."""

from __future__ import annotations

import ssl
from functools import lru_cache

from barnabas.client.security.certificates import files_changed, show_certificate, trust
from barnabas.client.security.login import AuthenticationFailed
from barnabas.client.security.options import Tls

__all__ = ["context_of", "failure_in_words", "refusal_in_words"]


def context_of(tls: Tls) -> ssl.SSLContext:
    """The context for connections to brokers; made anew when a file has changed.  Raises ConfigError."""
    return _context(tls, files_changed(tls))


@lru_cache(maxsize=32)
def _context(tls: Tls, changed: tuple[tuple[int, int], ...]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION
    context.check_hostname = tls.check_host
    context.verify_mode = ssl.CERT_REQUIRED
    trust(context, tls)
    show_certificate(context, tls)
    return context


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
_PLAIN = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_ENDED = "UNEXPECTED_EOF_WHILE_READING"
_ENDINGS = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError)
"""What a connection that ends in a handshake is, depending on the release of OpenSSL."""
_OTHER_PORT = "set security.protocol to PLAINTEXT or SASL_PLAINTEXT, or use the port of the TLS listener"


def failure_in_words(error: OSError, address: str, host: str) -> AuthenticationFailed | None:
    """What a TLS handshake failed at; None when the error says nothing about TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        why, hint = _certificate(error, host)
    elif isinstance(error, ssl.SSLError) and (alert := _alert(error.reason or "")):
        why, hint = alert, _SHOW
    elif getattr(error, "reason", "") in _PLAIN:
        why, hint = "the listener does not answer in TLS, it is a plain one", _OTHER_PORT
    elif isinstance(error, _ENDINGS) or getattr(error, "reason", "") == _ENDED:
        why = "the connection ended in the TLS handshake: the listener is a plain one, or it lets in nobody more"
        hint = f"{_OTHER_PORT}; else the broker's log says why"
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
