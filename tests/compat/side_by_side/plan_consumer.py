"""Sequences about groups of KIP-848: heartbeats, patterns, static members, and classic members among them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.compat.side_by_side.plan_classic import ClassicPlan
from tests.compat.side_by_side.steps import NEWEST_KEEP, PATTERNS, TOPICS, Step

__all__ = ["consumer_groups", "mixed_groups"]

EPOCHS = ("now", "before", "next", "0", "-1", "-2", "-3", "huge")
SUBSCRIPTIONS = (
    [],
    ["flights"],
    ["planes", "weather"],
    list(TOPICS),
    ["flights", "nowhere"],
    ["flights", "flights"],
)
OWNED = ("told", "none", "empty", "flights 0 and 4", "flights 99", "unknown topic")


class ConsumerPlan(ClassicPlan):
    """Members c0, c1, ... beside the classic ones, which are few or none."""

    def __init__(self, rng: random.Random, classic: bool) -> None:
        super().__init__(rng)
        if not classic:
            self.names = []
        self.consumers = [f"c{number}" for number in range(rng.choice((1, 2, 2, 3)))]
        self.own_instances = {name: f"i{name[1:]}" for name in self.consumers if rng.random() < 0.4}
        self.own_versions = {name: rng.choice((0, 1, 1, 1)) for name in self.consumers}
        self.joined: set[str] = set()
        self.strangers = ("nobody", "other", "odd")

    def draw(self) -> list[Step]:
        self.come(self.consumers[0])
        while len(self.steps) < self.length():
            kinds = MIXED if self.names else CONSUMERS
            self.rng.choices(list(kinds), list(kinds.values()))[0](self)
        self.say("describe consumer groups", 1, "reader", groups=["g0"])
        self.say("fetch offsets", 8, "reader", groups=[{"group": "g0", "topics": None}], stable=False)
        return self.steps

    def length(self) -> int:
        return 12 + self.wrong * 60

    def heartbeat(self, name: str, **how: Any) -> None:
        rng = self.rng
        whole: dict[str, Any] = {"member": name, "group": self.group(), "epoch": "now", "owned": "told"}
        whole["instance"] = self.own_instances.get(name)
        whole |= how
        if rng.random() < self.wrong:
            whole |= rng.choice(
                (
                    {"epoch": rng.choice(EPOCHS)},
                    {"owned": rng.choice(OWNED)},
                    {"group": rng.choice((" ", "\u0000"))},
                    {"instance": rng.choice((None, "i0", "i9", "", " "))},
                    {"who": rng.choice(("", "nobody", "other", " "))},
                    {"rack": rng.choice(("r1", "", " "))},
                    {"assignor": rng.choice(("range", "uniform", "sticky", ""))},
                    {"timeout_ms": rng.choice((-1, 300_001, 2**31 - 1))},
                    {"topics": rng.choice((None, *SUBSCRIPTIONS))},
                    {"regex": rng.choice(PATTERNS)},
                )
            )
        version = self.own_versions[name]
        if version == 0:
            whole.pop("regex", None)
        self.say("heartbeat", version, name, **whole)

    def come(self, name: str = "") -> None:
        """A member joins, or joins anew with another subscription."""
        rng = self.rng
        name = name or rng.choice(self.consumers)
        by_pattern = self.own_versions[name] >= 1 and rng.random() < 0.3
        how: dict[str, Any] = {"epoch": "0", "owned": "empty", "timeout_ms": 300_000}
        how["topics"] = None if by_pattern and rng.random() < 0.7 else rng.choice(SUBSCRIPTIONS)
        how["regex"] = rng.choice(PATTERNS) if by_pattern else None
        how["assignor"] = rng.choice((None, None, None, "uniform", "range"))
        self.heartbeat(name, **how)
        self.joined.add(name)

    def go_on(self) -> None:
        """All that are in the group say that they live, and own what they were told to own."""
        for name in sorted(self.joined):
            for _ in range(self.rng.choice((1, 1, 2))):
                self.heartbeat(name, **({} if self.rng.random() < 0.8 else {"owned": "none"}))

    def go_on_alone(self) -> None:
        name = self.rng.choice(self.consumers)
        how: dict[str, Any] = {}
        if self.rng.random() < 0.3:
            how = {"topics": self.rng.choice(SUBSCRIPTIONS), "timeout_ms": 300_000, "regex": None}
        self.heartbeat(name, **how)

    def go(self) -> None:
        name = self.rng.choice(self.consumers)
        for_now = name in self.own_instances and self.rng.random() < 0.6
        self.heartbeat(name, epoch="-2" if for_now else "-1", owned="none")
        if not for_now:
            self.joined.discard(name)

    def commit_as_one(self) -> None:
        rng = self.rng
        name = rng.choice(self.consumers)
        version = rng.choice((8, 9, 9, 9, 10, 2, 6))
        how: dict[str, Any] = {
            "group": self.group(),
            "topics": {"flights": {rng.randrange(5): rng.randrange(9)}},
        }
        how |= {"member": name, "who": rng.choice(("known", "known", "known", "", "nobody"))}
        how["generation"] = rng.choice(("now", "now", "now", "before", "next", "none", "huge"))
        if version >= 7:
            how["instance"] = rng.choice((None, self.own_instances.get(name)))
        self.say("commit", version, name, **how)

    def where_as_one(self) -> None:
        rng = self.rng
        asked: dict[str, Any] = {"group": "g0", "topics": rng.choice((None, {"flights": [0, 1]}))}
        asked |= {"member": rng.choice(self.consumers), "who": rng.choice(("known", "known", "", "nobody"))}
        asked["generation"] = rng.choice(("now", "now", "before", "next", "none"))
        self.say("fetch offsets", rng.choice((8, 9, 10)), "reader", groups=[asked], stable=rng.random() < 0.5)

    def keep_as_one(self) -> None:
        rng = self.rng
        if not any(step.api == "init" for step in self.steps):
            self.say("init", 5, "p0", id="x0", timeout_ms=60_000)
        how: dict[str, Any] = {"id": "x0", "who": "now", "group": "g0", "topic": "flights", "offsets": {1: 4}}
        how |= {
            "member": rng.choice(self.consumers),
            "member_who": rng.choice(("known", "known", "", "nobody")),
        }
        how["generation"] = rng.choice(("now", "now", "before", "next", "none"))
        self.say("keep offsets", rng.choice((3, 5, NEWEST_KEEP)), "p0", **how)
        if rng.random() < 0.5:
            self.where_as_one()
        self.say("end", 5, "p0", id="x0", who="now", commit=rng.random() < 0.7)

    def describe_both(self) -> None:
        api = "describe consumer groups" if self.rng.random() < 0.75 else "describe groups"
        version = self.rng.randrange(2) if api.startswith("describe c") else self.rng.randrange(7)
        self.say(api, version, "reader", groups=["g0"])

    def remove(self) -> None:
        """The classic protocol's way to be rid of a member."""
        name = self.rng.choice(self.consumers)
        members = [(name, self.rng.choice(("known", "", "nobody")), self.own_instances.get(name))]
        self.say("leave", self.rng.choice((1, 3, 5)), "reader", group="g0", members=members)

    def classic_step(self) -> None:
        """A request of the classic protocol by a member of the other."""
        name = self.rng.choice(self.consumers)
        if self.rng.random() < 0.5:
            self.say("beat", 4, "reader", member=name, group="g0", who="known", generation="now")
        else:
            self.say(
                "sync", 5, "reader", member=name, group="g0", who="known", generation="now", gives="nothing"
            )


Kinds = dict[Callable[[Any], None], int]
CONSUMERS: Kinds = {
    ConsumerPlan.come: 6,
    ConsumerPlan.go_on: 9,
    ConsumerPlan.go_on_alone: 5,
    ConsumerPlan.go: 3,
    ConsumerPlan.commit_as_one: 4,
    ConsumerPlan.where_as_one: 2,
    ConsumerPlan.keep_as_one: 2,
    ConsumerPlan.forget: 2,
    ConsumerPlan.describe_both: 3,
    ConsumerPlan.remove: 1,
    ConsumerPlan.classic_step: 1,
    ConsumerPlan.list_all: 1,
}
MIXED: Kinds = {
    ConsumerPlan.come: 3,
    ConsumerPlan.go_on: 6,
    ConsumerPlan.go_on_alone: 2,
    ConsumerPlan.go: 2,
    ConsumerPlan.enter: 5,
    ConsumerPlan.rebalance: 3,
    ConsumerPlan.beat: 4,
    ConsumerPlan.leave: 2,
    ConsumerPlan.commit: 3,
    ConsumerPlan.commit_as_one: 1,
    ConsumerPlan.keep: 1,
    ConsumerPlan.describe_both: 3,
}


def consumer_groups(rng: random.Random) -> list[Step]:
    """One sequence without classic members."""
    return ConsumerPlan(rng, classic=False).draw()


def mixed_groups(rng: random.Random) -> list[Step]:
    """One sequence with members of both protocols."""
    return ConsumerPlan(rng, classic=True).draw()
