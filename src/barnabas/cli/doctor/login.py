"""The login that a listener asks for, and this client's."""

from __future__ import annotations

from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.line import PROBE, Address, connect
from barnabas.client.connection import ConnectionFailed
from barnabas.client.security.options import Security
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.sasl import SaslHandshakeRequest

__all__ = ["examine_login", "examine_mechanisms", "examine_versions"]


def examine_versions(address: Address, security: Security, found: Findings) -> bool:
    """Check the client's certificate, and the versions of the protocol."""
    tls = security.tls
    shows = tls is not None and bool(tls.cert_file or tls.cert_pem)
    try:
        with connect(address, Security(tls)) as connection:
            for_clients = connection.serves(MetadataRequest)
    except BarnabasError as error:
        said = str(error).removeprefix(f"{address}: ")
        if tls is None:
            found.fail("ApiVersions", said, error.next_step or "see the node's log")
        elif not shows:
            found.fail(
                "client certificate",
                f"the listener ends the connection after the handshake: it may ask for a certificate, and we "
                f"show none ({said})",
                "set ssl.keystore.location in --command-config; the node's log (tls.refused) says whether it asks",
            )
        else:
            found.fail(
                "client certificate",
                f"the listener does not take ours ({said})",
                "use one that is signed by an authority of the listener's ssl.truststore.location; the node's log "
                "(tls.refused) says what it does not like",
            )
        return False
    if tls is not None:
        found.ok("client certificate", "ours is taken, or not asked for" if shows else "not required")
    found.ok(
        "ApiVersions",
        "answered" + ("" if for_clients else "; a listener of controllers, which serves no clients"),
    )
    return True


def examine_mechanisms(address: Address, security: Security, found: Findings) -> bool:
    """Return whether a login is asked for, and whether ours is one of those that are taken."""
    wanted = "" if security.sasl is None else security.sasl.mechanism
    try:
        with connect(address, Security(security.tls)) as connection:
            answer = connection.request(SaslHandshakeRequest(mechanism=wanted or PROBE))
    except BarnabasError as error:
        if not wanted:
            found.ok("login", "none is asked for (it serves no SaslHandshake)")
            return True
        found.fail("mechanisms", str(error), error.next_step or "see the node's log")
        return False
    offered = ", ".join(sorted(answer.mechanisms)[:10]) or "none"
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        if not wanted:
            found.ok("login", "none is asked for")
            return True
        protocol = "PLAINTEXT" if security.tls is None else "SSL"
        found.fail(
            "mechanisms",
            "the listener asks for no login, and --command-config has one",
            f"set security.protocol={protocol}, or dial the listener with SASL",
        )
    elif not wanted:
        protocol = "SASL_PLAINTEXT" if security.tls is None else "SASL_SSL"
        found.fail(
            "login",
            f"the listener asks for a login ({offered}), and none is given",
            f"give --command-config with security.protocol={protocol}, sasl.mechanism and sasl.jaas.config",
        )
    elif answer.error_code != ErrorCode.NONE:
        found.fail(
            "mechanisms",
            f"the listener does not take {wanted}; it takes {offered}",
            "set sasl.mechanism to one of these, or add ours to sasl.enabled.mechanisms of the listener",
        )
    else:
        found.ok("mechanisms", f"{wanted} is taken" + (f" (of {offered})" if answer.mechanisms else ""))
        return True
    return False


def examine_login(address: Address, security: Security, found: Findings) -> bool:
    """Check the login itself."""
    sasl = security.sasl
    if sasl is None:
        return True
    who = sasl.username or sasl.client_id or "the token"
    try:
        connect(address, security).close()
    except BarnabasError as error:
        said = str(error).removeprefix(f"{address}: ")
        if sasl.mechanism == "OAUTHBEARER":
            found.fail(
                "login", said, "check the token: issuer, audience, expiry, and the clocks of both sides"
            )
        elif isinstance(error, ConnectionFailed):
            found.fail("login", said, error.next_step or "see the node's log")
        else:
            found.fail(
                "login",
                f"{who} is not let in: there is no such user, or the password is another ({said})",
                "check both; the node's log (login.refused) says which, `barnabas users list` shows who there is",
            )
        return False
    found.ok("login", f"{who} is logged in with {sasl.mechanism}")
    return True
