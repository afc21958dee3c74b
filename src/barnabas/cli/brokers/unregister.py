"""Forgetting a broker: `brokers unregister 3`, and under the name of Kafka's tool `cluster unregister --id 3`.

And a controller: `cluster unregister-controller --id 3`.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from barnabas.cli.brokers.placement import Placement
from barnabas.cli.output import print_document
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin

__all__ = ["add_unregister_flags", "unregister", "unregister_controller"]


def add_unregister_flags(parser: argparse.ArgumentParser) -> None:
    """Flags that both commands have."""
    parser.add_argument(
        "--force", action="store_true", help="although replicas name it: those copies are given up for good"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")


def unregister(admin: Admin, args: argparse.Namespace, document: str, *, at_controller: bool = False) -> int:
    """Forget the broker `args.id` and print what is left of it, or the JSON document of that name.

    A controller (`at_controller`) knows neither replicas nor who is fenced: there the broker is forgotten unasked,
    as by Kafka's tool.  Raises ConfigError and KafkaError where it should stay.
    """
    if at_controller and args.dry_run:
        raise ConfigError(
            f"a controller cannot say whether broker {args.id} is registered",
            next_step="ask a broker: --bootstrap-server in place of --bootstrap-controller",
        )
    named = [] if at_controller else _named(Placement.of(admin), args.id, force=args.force)
    if not args.dry_run:
        from barnabas.client.admin.quorum import unregister_broker

        unregister_broker(admin.cluster, args.id)
    if args.json:
        voter = False if at_controller else _votes(admin, args.id)
        content = {"broker": args.id, "replicas": len(named), "voter": voter, "dry_run": args.dry_run}
        print_document(document, content)
        return 0
    print(f"Broker {args.id} {'would no longer be' if args.dry_run else 'is no longer'} registered.")
    if named:
        print(f"  {len(named)} partitions still name it and have one copy fewer.")
        print("  next: `barnabas rebalance run` does not move them; `barnabas brokers drain` does")
    if not at_controller and _votes(admin, args.id):
        print(f"  It is still a voter of the quorum; next: `barnabas quorum remove-controller -i {args.id}`")
    return 0


def _named(look: Placement, broker: NodeId, *, force: bool) -> list[TopicPartition]:
    """Return the partitions that name a broker which may be forgotten."""
    if broker not in look.brokers:
        raise look.unknown(broker)
    if broker not in look.fenced:
        raise ConfigError(
            f"broker {broker} runs, and would stay out until it is started again",
            next_step=f"`barnabas brokers drain {broker} --wait`, stop it, then unregister it",
        )
    named = look.named_by(broker)
    if named and not force:
        first = ", ".join(f"{tp.topic}-{tp.partition}" for tp in named[:3])
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{len(named)} {'partition names' if len(named) == 1 else 'partitions name'} broker {broker} "
            f"as a replica ({first}{', ...' if len(named) > 3 else ''})",
            next_step=f"`barnabas brokers drain {broker} --wait` copies them to others from those in sync; "
            "--force forgets the broker all the same, and those copies with it",
        )
    return named


def unregister_controller(admin: Admin, args: argparse.Namespace) -> int:
    """Forget the registration of the controller `args.id`.

    Raises ConfigError where it is a voter, as far as a broker or the active controller can say, and KafkaError.
    """
    if _votes(admin, args.id):
        raise ConfigError(
            f"controller {args.id} is a voter, and registers again as long as it runs",
            next_step=f"`barnabas quorum remove-controller -i {args.id}`, stop it, then unregister it",
        )
    admin.unregister_controller(args.id)
    if args.json:
        print_document("cluster.controller-unregistered", {"controller": args.id})
    else:
        print(f"Controller {args.id} is no longer registered.")
    return 0


def _votes(admin: Admin, broker: NodeId) -> bool:
    return any(replica.id == broker for replica in admin.quorum().voters)
