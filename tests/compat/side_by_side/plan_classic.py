"""Sequences about groups of the classic protocol: members come, go and stumble; others ask about the group."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.compat.side_by_side.steps import NEWEST_KEEP, ODD_GROUPS, ODD_NAMES, TOPICS, Step, lie

__all__ = ["ClassicPlan", "classic_groups"]

GENERATIONS = ("now", "before", "next", "none", "huge")
WHO = ("known", "", "nobody", "other", "odd")
PROTOCOLS = (["range"], ["range", "roundrobin"], ["roundrobin", "range"], ["sticky"], ["roundrobin"])
STATES = ("Empty", "Stable", "PreparingRebalance", "Dead", "Assigning", "stable", "Nonsense", "")
TYPES = ("classic", "consumer", "Classic", "share", "nonsense", "")


class ClassicPlan:
    """Members m0, m1, ... of the group g0; those with an instance are static."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.steps: list[Step] = []
        self.names = [f"m{number}" for number in range(rng.choice((1, 2, 2, 3)))]
        self.instances = {name: f"i{name[1:]}" for name in self.names if rng.random() < 0.35}
        self.versions = {name: rng.choice((0, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9)) for name in self.names}
        self.protocols = {name: ["range", "roundrobin"] for name in self.names}
        self.inside: list[str] = []
        self.strangers = WHO
        """As whom a member speaks by mistake."""
        self.wrong = rng.choice((0.03, 0.1, 0.25))

    def say(self, api: str, version: int, by: str, **how: Any) -> None:
        step = Step(api, version, by, how)
        if api in LYING and self.rng.random() < 0.02:
            step = lie(self.rng, step)
        self.steps.append(step)

    def stumbles(self) -> bool:
        return self.rng.random() < self.wrong

    def draw(self) -> list[Step]:
        self.enter()
        while len(self.steps) < self.length():
            kinds = INSIDE if self.inside else OUTSIDE
            self.rng.choices(list(kinds), list(kinds.values()))[0](self)
        self.say("describe groups", 6, "reader", groups=["g0"])
        return self.steps

    def length(self) -> int:
        return 10 + self.wrong * 60

    # -- what a member says ------------------------------------------------------------------------------

    def instance(self, name: str) -> str | None:
        if self.rng.random() < self.wrong / 3:
            return self.rng.choice((None, "i0", "i9", ""))
        return self.instances.get(name) if self.versions[name] >= 5 else None

    def who(self) -> str:
        return self.rng.choice(self.strangers) if self.stumbles() else "known"

    def group(self) -> str:
        return self.rng.choice(ODD_GROUPS) if self.rng.random() < self.wrong / 5 else "g0"

    def join(self, name: str) -> None:
        rng = self.rng
        version = self.versions[name]
        if self.stumbles():
            self.protocols[name] = rng.choice(PROTOCOLS)
        how: dict[str, Any] = {"member": name, "group": self.group(), "who": self.who()}
        how["protocols"] = [] if rng.random() < self.wrong / 8 else self.protocols[name]
        how["kind"] = rng.choice(("connect", "", "consumer")) if self.stumbles() else "consumer"
        how["session_ms"] = (
            rng.choice((1, 5999, 6000, 1_800_001, -1, 2**31 - 1)) if self.stumbles() else 45_000
        )
        how["topics"] = rng.sample(list(TOPICS), 2) if rng.random() > self.wrong / 3 else "garbage"
        if version >= 5:
            how["instance"] = self.instance(name)
        self.say("join", version, name, **how)

    def sync(self, name: str) -> None:
        rng = self.rng
        version = min(self.versions[name], 5)
        how: dict[str, Any] = {"member": name, "group": self.group(), "who": self.who()}
        how["generation"] = rng.choice(GENERATIONS) if self.stumbles() else "now"
        how["gives"] = rng.choice(("nothing", "nobody", "half")) if self.stumbles() else "all"
        if version >= 5:
            how["kind"] = rng.choice(("connect", "", None)) if self.stumbles() else "consumer"
            how["protocol"] = rng.choice(("sticky", "", None)) if self.stumbles() else "known"
        if version >= 3:
            how["instance"] = self.instance(name)
        self.say("sync", version, name, **how)

    def enter(self) -> None:
        """Somebody joins; the others hear of it and join again."""
        name = self.rng.choice(self.names)
        static = name in self.instances and self.versions[name] >= 5
        self.join(name)
        if self.versions[name] >= 4 and not static and name not in self.inside:
            self.join(name)
        self.rebalance(without=name)
        if name not in self.inside:
            self.inside.append(name)

    def rebalance(self, without: str = "") -> None:
        """All join, and all ask for their assignments; some are late or never come."""
        everybody = sorted({*self.inside, without} - {""})
        for name in everybody:
            if name != without and self.rng.random() > self.wrong / 2:
                if self.rng.random() < 0.3:
                    self.beat(name)
                self.join(name)
        self.rng.shuffle(everybody)
        for name in everybody:
            if self.rng.random() > self.wrong / 2:
                self.sync(name)

    def beat(self, name: str = "") -> None:
        name = name or self.rng.choice(self.names)
        version = min(self.versions[name], 4)
        how: dict[str, Any] = {"member": name, "group": self.group(), "who": self.who()}
        how["generation"] = self.rng.choice(GENERATIONS) if self.stumbles() else "now"
        if version >= 3:
            how["instance"] = self.instance(name)
        self.say("beat", version, name, **how)

    def leave(self) -> None:
        rng = self.rng
        name = rng.choice(self.names)
        version = rng.randrange(6)
        if version < 3:
            self.say("leave", version, name, group=self.group(), members=[(name, self.who(), None)])
        else:
            leaving = [name] if rng.random() < 0.7 else [rng.choice(self.names) for _ in range(3)]
            members = [(each, self.who(), self.instance(each)) for each in leaving]
            if rng.random() < 0.3:
                members = [(each, "", self.instances.get(each)) for each in leaving]
            self.say("leave", version, name, group=self.group(), members=members)
        if name in self.inside:
            self.inside.remove(name)
        if self.inside and rng.random() < 0.7:
            self.rebalance()

    # -- positions ---------------------------------------------------------------------------------------

    def commit(self) -> None:
        rng = self.rng
        name = rng.choice(self.names)
        version = rng.randrange(2, 11)
        offsets = {rng.choice((0, 1, 2)): rng.choice((0, 7, 8, 2**62, -1))}
        topic = "flights"
        if self.stumbles():
            topic = rng.choice(("nowhere", "planes", ""))
            offsets[rng.choice((0, 99, -1))] = 3
        how: dict[str, Any] = {"group": self.group(), "topics": {topic: offsets}}
        if rng.random() < 0.8:
            how |= {"member": name, "who": self.who()}
            how["generation"] = rng.choice(GENERATIONS) if self.stumbles() else "now"
        if version >= 7:
            how["instance"] = self.instance(name)
        if rng.random() < 0.1:
            how["metadata"] = rng.choice(("x" * 4096, "x" * 4097, None, "é"))
        if version <= 4 and rng.random() < 0.3:
            how["keep_ms"] = rng.choice((0, 1, 60_000, -2))
        self.say("commit", version, name, **how)

    def keep(self) -> None:
        """A commit in a transaction, by a producer that may name the member."""
        rng = self.rng
        name = rng.choice(self.names)
        if not any(step.api == "init" for step in self.steps):
            self.say("init", 5, "p0", id="x0", timeout_ms=60_000)
        how: dict[str, Any] = {"id": "x0", "who": "now", "group": "g0", "topic": "flights", "offsets": {0: 4}}
        if rng.random() < 0.7:
            how |= {"member": name, "member_who": self.who()}
            how["generation"] = rng.choice(GENERATIONS) if self.stumbles() else "now"
            how["instance"] = self.instance(name)
        self.say("keep offsets", rng.choice((3, 5, NEWEST_KEEP)), "p0", **how)
        if rng.random() < 0.5:
            self.where()
        self.say("end", 5, "p0", id="x0", who="now", commit=rng.random() < 0.7)

    def where(self) -> None:
        rng = self.rng
        version = rng.randrange(1, 11)
        topics = (
            {"flights": [0, 1]}
            if rng.random() < 0.7
            else rng.choice((None, {"nowhere": [0]}, {"flights": [99]}, {}))
        )
        if version < 2 and topics is None:
            topics = {}
        asked: dict[str, Any] = {"group": self.group(), "topics": topics}
        if version >= 9 and rng.random() < 0.3:
            asked |= {"member": rng.choice(self.names), "who": self.who()}
            asked["generation"] = rng.choice(GENERATIONS)
        groups = [asked]
        if version >= 8 and rng.random() < 0.2:
            groups.append(
                {"group": rng.choice(("g0", *ODD_NAMES)), "topics": rng.choice((None, {"planes": [0]}))}
            )
        stable = version >= 7 and rng.random() < 0.5
        self.say("fetch offsets", version, "reader", groups=groups, stable=stable)

    def forget(self) -> None:
        rng = self.rng
        if rng.random() < 0.6:
            topics = rng.choice(
                ({"flights": [0, 1]}, {"planes": [0]}, {"nowhere": [0]}, {"flights": [99, -1]}, {})
            )
            self.say("delete offsets", 0, "reader", group=self.group(), topics=topics)
        else:
            groups = ["g0"] if rng.random() < 0.7 else ["g0", *rng.sample(ODD_NAMES, 2), "g0"]
            self.say("delete groups", rng.randrange(3), "reader", groups=groups)

    # -- what others see ---------------------------------------------------------------------------------

    def describe(self) -> None:
        groups = ["g0"] if self.rng.random() < 0.8 else ["g0", *self.rng.sample(ODD_NAMES, 2)]
        if self.rng.random() < 0.8:
            self.say("describe groups", self.rng.randrange(7), "reader", groups=groups)
        else:
            self.say("describe consumer groups", self.rng.randrange(2), "reader", groups=groups)

    def list_all(self) -> None:
        rng = self.rng
        version = rng.randrange(6)
        how: dict[str, Any] = {}
        if version >= 4 and rng.random() < 0.6:
            how["states"] = rng.sample(STATES, rng.choice((1, 2)))
        if version >= 5 and rng.random() < 0.6:
            how["types"] = rng.sample(TYPES, rng.choice((1, 2)))
        self.say("list groups", version, "reader", **how)


LYING = {
    "join",
    "sync",
    "leave",
    "commit",
    "fetch offsets",
    "delete offsets",
    "delete groups",
    "describe groups",
}
Kinds = dict[Callable[[ClassicPlan], None], int]
ASIDE: Kinds = {
    ClassicPlan.commit: 4,
    ClassicPlan.where: 3,
    ClassicPlan.forget: 2,
    ClassicPlan.describe: 3,
    ClassicPlan.list_all: 1,
    ClassicPlan.beat: 3,
}
INSIDE: Kinds = {
    ClassicPlan.enter: 5,
    ClassicPlan.rebalance: 2,
    ClassicPlan.leave: 3,
    ClassicPlan.keep: 2,
    **ASIDE,
}
OUTSIDE: Kinds = {ClassicPlan.enter: 8, ClassicPlan.leave: 1, ClassicPlan.keep: 1, **ASIDE}


def classic_groups(rng: random.Random) -> list[Step]:
    """One sequence."""
    return ClassicPlan(rng).draw()
