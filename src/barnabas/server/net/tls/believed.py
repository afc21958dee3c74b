"""Asking whether those who trust a truststore would believe a certificate: a handshake in memory."""

from __future__ import annotations

import ssl
from contextlib import suppress

from barnabas.client.security.certificates import show_certificate, trust
from barnabas.client.security.options import Tls

__all__ = ["disbelief"]

_STEPS = 10
"""Turns of the two sides; a handshake takes three."""


def disbelief(tls: Tls) -> str | None:
    """Return why a client that trusts the truststore of `tls` would not believe its certificate; None: it would.

    Raises ConfigError when a file cannot be used.
    """
    node, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # as Java: trust any certificate
    show_certificate(node, tls)
    trust(client, tls)
    to_node, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = (client.wrap_bio(to_client, to_node), node.wrap_bio(to_node, to_client, server_side=True))
    for _ in range(_STEPS):
        for side in sides:
            try:
                with suppress(ssl.SSLWantReadError):
                    side.do_handshake()
            except ssl.SSLCertVerificationError as error:
                return error.verify_message
            except ssl.SSLError as error:
                return error.reason
    return None
