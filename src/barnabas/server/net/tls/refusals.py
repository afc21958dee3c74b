"""Why a handshake failed, in words that say what to do."""

from __future__ import annotations

import ssl
from typing import NamedTuple

__all__ = ["HUNG_UP", "Refused", "in_words", "looks_like"]

_HANDSHAKE = 0x16
_HTTP = (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI", b"CONN", b"PRI ")


class Refused(NamedTuple):
    """Why, and what helps."""

    why: str
    hint: str

    def __str__(self) -> str:
        return f"{self.why} (next: {self.hint})" if self.hint else self.why


_TRUST = "put the authority that signed it into ssl.truststore.location"
_OURS = (
    "give the client the authority of this node's certificate, as ssl.truststore.location or ssl.ca.location"
)
_WITH_TLS = "set security.protocol at the client to that of the listener: SSL or SASL_SSL"
HUNG_UP = Refused("the client hung up when it saw this node's certificate, so it may not trust it", _OURS)
_REASONS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": Refused(
        "the client shows no certificate, and ssl.client.auth=required",
        "set ssl.keystore.location at the client",
    ),
    "NO_SHARED_CIPHER": Refused(
        "the client and this node share no cipher", "use TLS 1.2 or 1.3 at the client"
    ),
    "UNSUPPORTED_PROTOCOL": Refused(
        "the client speaks no version of TLS that this node does", "see ssl.enabled.protocols"
    ),
    "WRONG_VERSION_NUMBER": Refused("the client does not speak TLS", _WITH_TLS),
    "TLSV1_ALERT_UNKNOWN_CA": Refused("the client does not trust this node's certificate", _OURS),
    "SSLV3_ALERT_BAD_CERTIFICATE": Refused(
        "the client does not take this node's certificate",
        "check the names in it, and the client's truststore",
    ),
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": Refused("the client does not take this node's certificate", _OURS),
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": Refused(
        "the client says that this node's certificate has expired", "renew it, and check the clocks"
    ),
    "SSLV3_ALERT_HANDSHAKE_FAILURE": Refused("the client gave up the handshake", "see the client's log"),
    "TLSV1_ALERT_PROTOCOL_VERSION": Refused(
        "the client speaks no version of TLS that this node does", "see ssl.enabled.protocols"
    ),
}


def in_words(error: ssl.SSLError) -> Refused:
    """What OpenSSL's error means."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refused(f"the client's certificate is not taken: {error.verify_message}", _TRUST)
    reason = error.reason or ""
    return _REASONS.get(reason) or Refused(f"TLS failed: {reason or error}", "see the client's log")


def looks_like(data: memoryview) -> Refused | None:
    """What else than TLS the first bytes of a connection are; None: they may be TLS."""
    if not data or data[0] == _HANDSHAKE:
        return None
    head = bytes(data[:4])
    if head in _HTTP:
        return Refused("the client speaks HTTP", "this port serves Kafka's protocol over TLS, and no pages")
    if head[0] == 0:
        return Refused("the client speaks Kafka's protocol without TLS", _WITH_TLS)
    return None
