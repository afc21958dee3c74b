"""Metrics that clients push: who is asked for which, and what came (KIP-714).

barnabas telemetry list                                      what clients are asked for
barnabas telemetry clients -m 127.0.0.1:9644                 who pushed to the broker with that metrics page
barnabas telemetry show etl -m 127.0.0.1:9644                what the clients with the id etl pushed last

Subscriptions are settings: `barnabas configs set client-metrics NAME metrics=* interval.ms=60000`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, show
from barnabas.cli.typed.numbers import seconds
from barnabas.errors import BarnabasError

__all__ = ["add_arguments", "run"]

_WHO = ("client_id", "client_instance_id")
_ABOUT = "client_instance_info"
_PREFIX = "client_"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas telemetry`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|clients|show")
    lists = verbs.add_parser("list", help="what clients are asked for: barnabas telemetry list")
    add_cluster_flags(lists)
    clients = verbs.add_parser("clients", help="who pushed: barnabas telemetry clients -m 127.0.0.1:9644")
    shows = verbs.add_parser("show", help="what came: barnabas telemetry show etl -m 127.0.0.1:9644")
    shows.add_argument("client", help="the client id, or the id of the instance")
    for verb in (clients, shows):
        verb.add_argument(
            "--metrics",
            "-m",
            metavar="HOST:PORT",
            required=True,
            help="the broker's barnabas.http.listener; each broker has what its own clients pushed",
        )
        verb.add_argument(
            "--timeout", type=seconds, default=30.0, metavar="SECONDS", help="how long to try (30)"
        )
        verb.add_argument("--json", action="store_true", help="print one JSON document instead of a table")


def run(args: argparse.Namespace) -> int:
    """`barnabas telemetry list|clients|show`."""
    if args.verb == "list":
        _list(args)
        return 0
    samples = list(_pushed(args.metrics, args.timeout))
    if args.verb == "clients":
        _clients(args, samples)
        return 0
    found = [sample for sample in samples if args.client in (sample.labels.get(name) for name in _WHO)]
    rows = [
        {
            "metric": sample.name.removeprefix(_PREFIX),
            "labels": ",".join(f"{k}={v}" for k, v in sorted(sample.labels.items()) if k not in _WHO),
            "value": f"{sample.value:.15g}",
            "instance": sample.labels["client_instance_id"],
        }
        for sample in found
        if sample.name != _ABOUT
    ]
    if not found:
        raise BarnabasError(
            f"no client {args.client} pushed to {args.metrics}",
            next_step=f"see who did with `barnabas telemetry clients -m {args.metrics}`",
        )
    show(args, "pushed", rows, ["metric", "labels", "value"])
    return 0


def _list(args: argparse.Namespace) -> None:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.resources import resources_of

    with Admin(args.bootstrap_server, timeout=args.timeout, security=security_of(args)) as admin:
        rows = [
            {
                "name": found.name,
                **{
                    one.name.removesuffix(".ms"): one.value
                    for one in admin.configs("client-metrics", found.name)
                },
            }
            for found in resources_of(admin.cluster, "client-metrics")
        ]
    if not rows and not args.json:
        print(
            "No client is asked for metrics; `barnabas configs set client-metrics NAME metrics=*` asks all."
        )
        return
    show(args, "subscriptions", rows, ["name", "metrics", "interval", "match"])


def _pushed(address: str, timeout: float) -> Iterator[Any]:
    """What clients pushed, as the broker with that metrics page has it."""
    from urllib.error import URLError
    from urllib.request import urlopen

    from prometheus_client.parser import text_string_to_metric_families

    try:
        with urlopen(f"http://{address}/metrics", timeout=timeout) as answer:
            text = answer.read().decode()
    except (URLError, OSError, ValueError) as error:
        raise BarnabasError(
            f"there are no metrics at {address}: {error}",
            next_step="give the address that barnabas.http.listener of the broker has",
        ) from error
    for family in text_string_to_metric_families(text):
        yield from (sample for sample in family.samples if sample.name.startswith(_PREFIX))


def _clients(args: argparse.Namespace, samples: list[Any]) -> None:
    rows = []
    for about in samples:
        if about.name != _ABOUT:
            continue
        labels = about.labels
        own = [one for one in samples if one.labels["client_instance_id"] == labels["client_instance_id"]]
        rows.append(
            {
                "client": labels.get("client_id", ""),
                "instance": labels["client_instance_id"],
                "software": " ".join(
                    labels.get(f"client_software_{what}", "") for what in ("name", "version")
                ),
                "address": labels.get("client_source_address", ""),
                "series": len(own) - 1,
            }
        )
    if not rows and not args.json:
        print(f"No client pushed metrics to {args.metrics} lately.")
        return
    show(args, "clients", rows, ["client", "instance", "software", "address", "series"])
