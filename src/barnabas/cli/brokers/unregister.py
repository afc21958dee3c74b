"""Forgetting a broker: `brokers unregister 3`, and under the name of Kafka's tool `cluster unregister --id 3`.

And a controller: `cluster unregister-controller --id 3`.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.brokers.placement import Placement
from barnabas.cli.output import print_document
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.metadata import TopicInfo

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
    named = _Named([], []) if at_controller else _named(admin, args.id, force=args.force)
    if not args.dry_run:
        from barnabas.client.admin.quorum import unregister_broker

        unregister_broker(admin.cluster, args.id)
    if args.json:
        voter = False if at_controller else _votes(admin, args.id)
        content = {
            "broker": args.id,
            "replicas": len(named.every),
            "without_copy": len(named.alone),
            "voter": voter,
            "dry_run": args.dry_run,
        }
        print_document(document, content)
        return 0
    print(f"Broker {args.id} {'would no longer be' if args.dry_run else 'is no longer'} registered.")
    if named.every:
        print(f"  {len(named.every)} partitions still name it and have one copy fewer.")
        print("  next: `barnabas rebalance run` does not move them; `barnabas brokers drain` does")
    if named.alone:
        print(f"  {_said(named.alone)} no other copy in sync, and no leader until it is started again.")
    if not at_controller and _votes(admin, args.id):
        print(f"  It is still a voter of the quorum; next: `barnabas quorum remove-controller -i {args.id}`")
    return 0


class _Named(NamedTuple):
    """Partitions that have a replica on a broker, and those of which no other replica is in sync."""

    every: list[TopicPartition]
    alone: list[TopicPartition]

    @classmethod
    def of(cls, topics: Iterable[TopicInfo], broker: NodeId) -> _Named:
        """Return those of a broker; one that a partition is moved away from still has the copy that is copied."""
        states = {TopicPartition(t.name, p.partition): p for t in topics for p in t.partitions.values()}
        every = sorted(tp for tp, state in states.items() if broker in state.replicas)
        return cls(every, [tp for tp in every if not set(states[tp].isr) - {broker}])


def _said(partitions: list[TopicPartition]) -> str:
    first = ", ".join(f"{tp.topic}-{tp.partition}" for tp in partitions[:3])
    more = ", ..." if len(partitions) > 3 else ""
    return (
        f"{len(partitions)} {'partition has' if len(partitions) == 1 else 'partitions have'} ({first}{more})"
    )


def _named(admin: Admin, broker: NodeId, *, force: bool) -> _Named:
    """Return the partitions that name a broker which may be forgotten."""
    look = Placement.of(admin)
    if broker not in look.brokers:
        raise look.unknown(broker)
    if broker not in look.fenced:
        raise ConfigError(
            f"broker {broker} runs, and would stay out until it is started again",
            next_step=f"`barnabas brokers drain {broker} --wait`, stop it, then unregister it",
        )
    named = _Named.of(admin.topics(internal=True), broker)
    if named.alone and not force:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{_said(named.alone)} no copy in sync but that of broker {broker}",
            next_step=f"start broker {broker}, then `barnabas brokers drain {broker} --wait`; "
            "--force forgets the broker all the same, and those records with it",
        )
    if named.every and not force:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"{_said(named.every)} a replica on broker {broker}",
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
