"""Transactions: which there are, which hold readers back, and how one that nobody ends is ended.

barnabas transactions list --state Ongoing
barnabas transactions describe etl-1
barnabas transactions find-hanging                       open in a partition, and unknown to their coordinators
barnabas transactions abort orders 0 4711                the one that partition 0 has open since offset 4711
"""

from __future__ import annotations

import argparse
import time

from barnabas.cli.controllers import security_of
from barnabas.cli.output import add_cluster_flags, print_document, show
from barnabas.cli.typed.numbers import INT64, at_least, partition, whole

__all__ = ["add_arguments", "run"]

OLDER_MINUTES = 15.0
"""Nothing is called hanging before: the longest timeout that a broker allows unless it is set otherwise."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of `barnabas transactions`."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="list|describe|find-hanging|abort")
    lists = verbs.add_parser("list", help="all transactional ids: barnabas transactions list --state Ongoing")
    lists.add_argument("--state", action="append", metavar="STATE", help="only these, for example Ongoing")
    describe = verbs.add_parser("describe", help="one of them: barnabas transactions describe etl-1")
    describe.add_argument("id", metavar="transactional-id")
    hanging = verbs.add_parser("find-hanging", help="what nobody ends: barnabas transactions find-hanging")
    hanging.add_argument("--topic", action="append", metavar="TOPIC", help="only these (default: all)")
    hanging.add_argument(
        "--older",
        type=at_least(0, unit="minutes"),
        default=OLDER_MINUTES,
        metavar="MINUTES",
        help=f"only without a record for so long ({OLDER_MINUTES:g}; not less than transaction.max.timeout.ms)",
    )
    abort = verbs.add_parser("abort", help="end one as aborted: barnabas transactions abort orders 0 4711")
    abort.add_argument("topic")
    abort.add_argument("partition", type=partition)
    abort.add_argument("offset", type=whole(0, INT64), help="where it begins, as find-hanging shows")
    abort.add_argument("--force", action="store_true", help="even if its coordinator knows it")
    for verb in (lists, describe, hanging, abort):
        add_cluster_flags(verb)


def run(args: argparse.Namespace) -> int:
    """`barnabas transactions list|describe|find-hanging|abort`."""
    from barnabas.client.admin.transactions import (
        abort_transaction,
        describe_transaction,
        hanging_transactions,
        list_transactions,
    )
    from barnabas.client.cluster import Cluster

    with Cluster(
        args.bootstrap_server, client_id="barnabas-admin", timeout=args.timeout, security=security_of(args)
    ) as cluster:
        if args.verb == "list":
            rows = [one._asdict() for one in list_transactions(cluster, states=args.state or ())]
            show(args, "transactions", rows, ["id", "state", "producer_id", "coordinator"])
        elif args.verb == "describe":
            about = describe_transaction(cluster, args.id)
            fields = {**about._asdict(), "partitions": [str(tp) for tp in about.partitions]}
            if args.json:
                print_document("transaction", {"transaction": fields})
            else:
                for name, value in fields.items():
                    shown = (" ".join(value) or "-") if isinstance(value, list) else value
                    print(f"{name.replace('_', ' '):<12} {shown}")
        elif args.verb == "find-hanging":
            now_ms = int(time.time() * 1000)
            found = hanging_transactions(cluster, args.topic or (), older_than=args.older * 60)
            rows = [{**one._asdict(), "idle_s": (now_ms - one.last_ms) // 1000} for one in found]
            show(args, "hanging", rows, ["topic", "partition", "offset", "producer_id", "epoch", "idle_s"])
        else:
            gone = abort_transaction(cluster, args.topic, args.partition, args.offset, force=args.force)
            if args.json:
                print_document("transaction.aborted", {"aborted": gone._asdict()})
            else:
                print(
                    f"Aborted the transaction of producer {gone.producer_id} in {args.topic}-{args.partition}."
                )
    return 0
