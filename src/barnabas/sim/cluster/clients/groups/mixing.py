"""Who takes part in a group that has members of the classic protocol: alone, or beside members of KIP-848.

With both kinds a group changes its protocol again and again: to that of KIP-848 when such a member comes, and back
when the last one leaves or is silent for too long.  At the end it is of the one kind, of the other, or of both.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from barnabas.sim.cluster.clients.groups.classic import ClassicMember
from barnabas.sim.cluster.clients.groups.instance import Instance, Plan
from barnabas.sim.cluster.clients.groups.member import NewProtocolMember
from barnabas.sim.cluster.clients.groups.sharing import COOPERATIVE, EAGER

__all__ = ["Part", "mixed_parts"]


class Part(NamedTuple):
    """A client of a group: of which kind it is, and whether it is gone at the end."""

    client: str
    kind: type[Instance]
    plan: Plan
    mortal: bool


def mixed_parts(rng: random.Random, names: tuple[str, ...], session: float) -> list[Part]:
    """The members of one group, drawn; `names` of the topics that stay, `session` in seconds."""
    plan = Plan(
        topics=rng.choice((names, names, (names[0],))),
        session=session,
        rebalance=rng.choice((1.5, 4.0, 10.0)),
        interval=rng.choice((0.2, 0.4)),
        assignor=rng.choice((EAGER, COOPERATIVE)),
        restless=rng.choice((0.02, 0.05, 0.1)),
    )
    end = rng.choice(("classic", "classic", "both", "consumer"))
    mixed = end != "classic" or rng.random() < 0.6
    parts: list[Part] = []
    for number in range(1, rng.choice((2, 3, 4))):
        own = _instance(plan, f"instance{number}") if rng.random() < 0.25 else plan
        if rng.random() < 0.3:
            own = own._replace(other_topics=(names[0],))
        mortal = end == "consumer" or (number > 1 and rng.random() < 0.25)
        parts.append(Part(f"classic{number}", ClassicMember, own, mortal))
    static = [part.plan.instance_id for part in parts if part.plan.instance_id is not None]
    for number in range(1, rng.choice((2, 3)) if mixed else 1):
        own = plan._replace(assignor=rng.choice((None, "uniform", "range")), away=rng.choice((2.0, 5.0)))
        taken = bool(static) and rng.random() < 0.5
        if taken:
            own = _instance(own, static.pop())
        mortal = end == "classic" or (taken and end == "both") or (number > 1 and rng.random() < 0.25)
        parts.append(Part(f"member{number}", NewProtocolMember, own, mortal))
    return parts


def _instance(plan: Plan, instance_id: str) -> Plan:
    """A static member, whichever client it is just now."""
    return plan._replace(instance_id=instance_id, name=instance_id)
