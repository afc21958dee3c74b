"""Empty a broker so that it may stop (`barnabas brokers drain 1 --wait`).

1. Check that the others can carry what it has, before anything is changed.
2. Cordon it: `cordoned.log.dirs=*` on that broker; the controller places nothing on it from then on (KIP-1066).
3. Wait until the controller has heard so, then move its replicas to the others, as few as that takes.
4. With --wait: watch, and look again for what was placed on it before step 2 took effect.
5. A voter of the quorum becomes an observer, so that the quorum does not lose a vote when it stops.
6. Say that it may be stopped, and how to forget it.

Interrupted at any point it goes on when asked again: each step looks first whether it is done.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from barnabas.cli.brokers.placement import Placement
from barnabas.cli.brokers.rebalance import carry_out, show_plan
from barnabas.cli.output import print_document
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.described import QuorumReplica

__all__ = ["CORDON", "drain"]

CORDON = "cordoned.log.dirs"
AUTO_JOIN = "controller.quorum.auto.join.enable"
CORDON_LEVEL = 30
"""metadata.version (4.3-IV0) from which controllers know of cordoned directories."""
HEARD_SECONDS = 10.0
LOOK_EVERY_S = 0.1
ROUNDS = 5
"""How often what was placed on it meanwhile is moved away again."""


def drain(admin: Admin, args: argparse.Namespace) -> int:
    """`barnabas brokers drain|remove ID`: the exit code."""
    broker: NodeId = args.id
    look = Placement.of(admin)
    if broker not in look.brokers and not look.named_by(broker):
        raise look.unknown(broker)
    plan = look.moved_off(broker)
    look.check_room(plan)
    voter = None if args.keep_voter else _check_voter(admin, broker)
    if args.dry_run:
        show_plan(args, look, plan, executed=False)
        if not args.json:
            print(f"Would cordon broker {broker}{', make it no voter' if voter else ''}; nothing was done.")
        return 0
    _cordon(admin, args, look, broker)
    again = f"barnabas brokers {args.verb} {broker}"
    code = moved = 0
    for _ in range(ROUNDS):
        look = Placement.of(admin)
        plan = look.moved_off(broker)
        if not plan and not any(broker in (*m.removing, *m.replicas) for m in admin.moves()):
            break
        moved += len(plan)
        code = carry_out(admin, args, look, plan, again=again, document=False)
        if code or not args.wait:
            break
    left = Placement.of(admin).named_by(broker)
    empty = not left and (args.wait or not admin.moves())
    if empty and voter is not None:
        _demote(admin, args, voter)
    if args.json:
        content = {
            "broker": broker,
            "moved": moved,
            "left": len(left),
            "done": empty,
            "voter": voter is not None,
        }
        print_document("brokers.drained", {"drained": content})
    elif empty:
        print(f"Broker {broker} carries nothing and gets nothing: stop it, then")
        print(f"  barnabas brokers unregister {broker}")
    elif not code:
        print(f"Not done yet: `{again} --wait` goes on and says when it may be stopped.")
    return code or (1 if args.wait and not empty else 0)


def _check_voter(admin: Admin, broker: NodeId) -> QuorumReplica | None:
    """Its row when it is a voter.  Raises ConfigError when it is the only one."""
    quorum = admin.quorum()
    voter = next((replica for replica in quorum.voters if replica.id == broker), None)
    if voter is not None and len(quorum.voters) == 1:
        raise ConfigError(
            f"node {broker} is the only voter of the quorum",
            next_step="make another controller a voter first (`barnabas quorum add-controller`), "
            "or keep this one with --keep-voter",
        )
    return voter


def _cordon(admin: Admin, args: argparse.Namespace, look: Placement, broker: NodeId) -> None:
    """Have the controller place nothing on it; returns when it says so itself."""
    if broker not in look.brokers or broker in look.cordoned:
        return
    levels = {feature.name: feature.finalized for feature in admin.features()}
    if levels.get("metadata.version", 0) < CORDON_LEVEL:
        if not args.json:
            print(
                f"The cluster's metadata.version knows no cordon: new topics may still use broker {broker}."
            )
            print("  next: `barnabas features upgrade --release-version 4.3`, then drain again")
        return
    if broker in look.fenced:  # nobody can ask it to take nothing, and it gets nothing
        return
    admin.alter_configs("broker", str(broker), {CORDON: "*"})
    deadline = time.monotonic() + HEARD_SECONDS
    while not admin.log_dirs(broker).wholly_cordoned:
        if time.monotonic() > deadline:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"broker {broker} did not report its cordon within {HEARD_SECONDS:g} s",
                next_step="ask again; `barnabas brokers describe` shows its directories",
            )
        time.sleep(LOOK_EVERY_S)
    if not args.json:
        print(f"Broker {broker} is cordoned: it gets no new replicas.")


def _demote(admin: Admin, args: argparse.Namespace, voter: QuorumReplica) -> None:
    """Make it an observer: the leader of the quorum refuses where the rest would be no live majority."""
    from barnabas.cli.quorum.detail import bootstrap_line
    from barnabas.client.admin.quorum import remove_controller

    remove_controller(admin.cluster, voter.id, voter.directory_id)
    if args.json:
        return
    joins = {s.name: s.value for s in admin.configs("broker", str(voter.id))}.get(AUTO_JOIN)
    voters = [replica.id for replica in admin.quorum().voters if replica.id != voter.id]
    print(f"Node {voter.id} is no voter any more; voters: {', '.join(map(str, voters))}.")
    print(f"  in every node's file: {bootstrap_line(admin.quorum_detail(), without=voter.id)}")
    if joins == "true":
        print(f"  {AUTO_JOIN} is on: while it runs it asks to be a voter again; stop it soon.")
    if len(voters) % 2 == 0:
        fewer = (len(voters) - 1) // 2
        failures = f"{fewer} {'failure' if fewer == 1 else 'failures'}"
        print(f"  {len(voters)} voters survive {failures}, as {len(voters) - 1} would; better an odd number")
