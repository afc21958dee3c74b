"""Find what is wrong with a connection: one check after the other, each with what helps.

barnabas doctor 10.0.0.1:9093                                   as a client without login
barnabas doctor 10.0.0.1:9093 --command-config client.properties

Works with Barnabas and with Apache Kafka.  It ends with 0 when nothing failed, with 3 when nobody is there, else
with 1.
"""

from __future__ import annotations

import argparse
import socket
import time
from datetime import UTC, datetime

from barnabas.cli.controllers import security_of
from barnabas.cli.doctor.cluster import examine_cluster
from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.handshake import examine_own_files, examine_tls
from barnabas.cli.doctor.line import Address, dial, speaks
from barnabas.cli.doctor.login import examine_login, examine_mechanisms, examine_versions
from barnabas.cli.exits import Exit
from barnabas.cli.output import add_command_config, print_document, print_rows
from barnabas.cli.typed.numbers import seconds
from barnabas.client.metadata import parse_bootstrap
from barnabas.client.security.options import Security
from barnabas.errors import ConfigError

__all__ = ["add_arguments", "examine", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of `barnabas doctor`."""
    parser.add_argument("address", metavar="HOST:PORT", help="the listener, as a client dials it")
    add_command_config(parser)
    parser.add_argument(
        "--timeout", type=seconds, default=5.0, metavar="SECONDS", help="how long each step may take (5)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(args: argparse.Namespace) -> int:
    """Run `barnabas doctor HOST:PORT`."""
    dialled = parse_bootstrap(args.address)
    if len(dialled) != 1:
        raise ConfigError("doctor examines one address at a time", next_step="give one HOST:PORT")
    if args.timeout <= 0:
        raise ConfigError("--timeout is how many seconds each step may take, above 0")
    address = Address(*dialled[0], args.timeout)
    found = Findings()
    reached = examine(address, args, found)
    if args.json:
        rows = [row._asdict() for row in found.rows]
        print_document("doctor", {"address": str(address), "ok": not found.failed, "checks": rows})
    else:
        print_rows(["check", "state", "what"], [[row.check, row.state, row.said] for row in found.rows])
        for row in found.rows:
            if row.next:
                print(f"next ({row.check}): {row.next}")
    if not reached:
        return Exit.UNREACHABLE
    return Exit.FAILED if found.failed else Exit.OK


def examine(address: Address, args: argparse.Namespace, found: Findings) -> bool:
    """Make all checks up to the first that makes the next ones pointless; return whether anybody is there."""
    found.ok("clock", f"this machine's says {datetime.fromtimestamp(time.time(), UTC):%Y-%m-%d %H:%M:%S} UTC")
    security: Security | None
    try:
        security = Security.parse(security_of(args))
    except ConfigError as error:
        found.fail("own settings", error.message, error.next_step or "see docs/client.md")
        security = None
    if security is not None and security.tls is not None and not examine_own_files(security.tls, found):
        security = None
    if not _is_reached(address, found):
        return False
    spoken = _examine_protocol(address, security, found)
    if security is None or not spoken:
        return True
    if security.tls is not None and not examine_tls(address, security.tls, found):
        return True
    if (
        examine_versions(address, security, found)
        and examine_mechanisms(address, security, found)
        and examine_login(address, security, found)
    ):
        examine_cluster(address, security, found)
    return True


def _is_reached(address: Address, found: Findings) -> bool:
    check = "reachable"
    try:
        dial(address).close()
    except socket.gaierror as error:
        found.fail(
            check,
            f"nobody knows the name {address.host} ({error.strerror})",
            "check the name, or give its address",
        )
    except TimeoutError:
        found.fail(
            check,
            f"no answer from {address} in {address.timeout:g} s",
            "check host and port, and firewalls that drop packets",
        )
    except ConnectionRefusedError:
        found.fail(
            check,
            f"nobody listens at {address}",
            "start the node, or look in its log for the addresses where it listens (listener.listening)",
        )
    except OSError as error:
        found.fail(check, f"{address}: {error.strerror or error}", "check host and port")
    else:
        found.ok(check, f"somebody listens at {address}")
        return True
    return False


def _examine_protocol(address: Address, security: Security | None, found: Findings) -> bool:
    """Return whether what is spoken there is what this client would speak."""
    check, spoken = "protocol", speaks(address)
    with_sasl = "SASL_" if security is not None and security.sasl is not None else ""
    if spoken == "HTTP":
        found.fail(
            check,
            "this is a web server, or the port of /metrics and /health",
            "dial the port of a listener (`listeners` in the node's properties)",
        )
    elif not spoken:
        found.fail(
            check,
            "neither Kafka's protocol nor TLS nor HTTP: it ends connections, or does not answer",
            "check the port; a node that refuses connections says so in its log (connection.refused)",
        )
    elif security is None:
        found.ok(check, "TLS" if spoken == "TLS" else "Kafka's protocol without TLS")
    elif spoken == "TLS" and security.tls is None:
        found.fail(
            check,
            "the listener speaks TLS, and we do not",
            f"set security.protocol={with_sasl or '(SASL_)'}SSL and ssl.truststore.location in --command-config",
        )
    elif spoken == "Kafka" and security.tls is not None:
        found.fail(
            check,
            "the listener speaks no TLS, and security.protocol asks for it",
            f"dial the port of the TLS listener, or set security.protocol={with_sasl}PLAINTEXT",
        )
    else:
        found.ok(check, "TLS, as security.protocol has it" if spoken == "TLS" else "Kafka's, without TLS")
        return True
    return False
