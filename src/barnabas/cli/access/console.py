"""Pages about a cluster for a browser on this machine: topics, messages, groups, brokers, the quorum.

barnabas console                                       of the cluster at 127.0.0.1:9092
barnabas console broker1:9093 --command-config FILE    of a cluster with TLS and logins

FILE says how the cluster is reached and whom to trust (security.protocol, sasl.mechanism, ssl.truststore.*), and
has nobody's password: whoever opens the pages logs in, and sees what the cluster shows to that person.
"""

from __future__ import annotations

import argparse

from barnabas.cli.controllers import security_of
from barnabas.cli.exits import signals_stop
from barnabas.cli.output import add_cluster_flags
from barnabas.cli.typed.streams import told_if_possible

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas console`."""
    parser.add_argument("address", nargs="?", metavar="HOST:PORT", help="the cluster, as -b names it")
    parser.add_argument(
        "--port",
        type=_port,
        default=8088,
        metavar="PORT",
        help="where it listens on 127.0.0.1 (8088; 0: any)",
    )
    add_cluster_flags(parser, json_flag=False)


def run(args: argparse.Namespace) -> int:
    """`barnabas console`: until Ctrl-C."""
    from barnabas.console.serving import run

    def say(url: str) -> None:
        with told_if_possible():
            print(f"open {url}")

    with signals_stop():
        run(args.address or args.bootstrap_server, security_of(args), args.port, say)
    return 0


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port")
    return int(text)
