"""Sequences about transactions: producers, their coordinator, the partitions and groups that they write to."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tests.compat.side_by_side.steps import NEWEST_KEEP, ODD_GROUPS, ODD_NAMES, PATTERNS, Step, lie, some_who

__all__ = ["transactions"]

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "Nonsense",
    "ongoing",
    "",
)
TIMEOUTS = (0, -1, 1, 900_000, 900_001, 2**31 - 1, -(2**31))


class _Producer:
    """A producer as the plan sees it: what it may have done, if all went well."""

    def __init__(self, name: str, id: str, new: bool) -> None:
        self.name, self.id, self.new = name, id, new
        self.open = False


class _Plan:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.steps: list[Step] = []
        new = rng.random() < 0.55
        self.producers = [_Producer("p0", "x0", new)]
        if rng.random() < 0.5:
            self.producers.append(_Producer("p1", rng.choice(("x0", "x1")), rng.random() < 0.5))

    def say(self, api: str, version: int, by: str, **how: Any) -> None:
        step = Step(api, version, by, how)
        if api not in ("look", "list") and self.rng.random() < 0.02:
            step = lie(self.rng, step)
        self.steps.append(step)

    def draw(self) -> list[Step]:
        for producer in self.producers:
            self.init(producer)
        for _ in range(self.rng.randint(7, 15)):
            producer = self.rng.choice(self.producers)
            weights = OPEN if producer.open else IDLE
            kind = self.rng.choices(list(weights), list(weights.values()))[0]
            kind(self, producer)
        if self.rng.random() < 0.1:
            self.mark()
        self.say("look", 0, "reader", partition=0)
        self.say("describe transactions", 0, "reader", ids=["x0", "x1"])
        self.say("fetch offsets", 8, "reader", groups=[{"group": "g0", "topics": {"t": [0, 1]}}], stable=True)
        return self.steps

    def version(self, producer: _Producer, old: tuple[int, ...], new: int) -> int:
        """Mostly that of the producer's protocol."""
        return (
            self.rng.choice((*old, new))
            if self.rng.random() < 0.1
            else new
            if producer.new
            else self.rng.choice(old)
        )

    def init(self, producer: _Producer) -> None:
        timeout_ms = 60_000 if self.rng.random() < 0.93 else self.rng.choice(TIMEOUTS)
        id = producer.id if self.rng.random() < 0.96 else self.rng.choice((*ODD_NAMES, None))
        self.say("init", self.rng.randrange(6), producer.name, id=id, timeout_ms=timeout_ms)
        producer.open = False

    def go_on(self, producer: _Producer) -> None:
        who = some_who(self.rng, 0.7)
        self.say(
            "init", self.rng.choice((3, 4, 5)), producer.name, id=producer.id, timeout_ms=60_000, who=who
        )
        producer.open = False

    def init_in_two_phases(self, producer: _Producer) -> None:
        how = {"two_phases": self.rng.random() < 0.7, "keep": self.rng.random() < 0.5}
        id = producer.id if self.rng.random() < 0.8 else self.rng.choice(("", "x9", None))
        self.say("init", 6, producer.name, id=id, timeout_ms=self.rng.choice((60_000, 0)), **how)

    def add(self, producer: _Producer) -> None:
        partitions = self.rng.choice(([0], [1], [0, 1], [0, 0], [], [0, 7], [-1], [2**31 - 1]))
        topic = (
            "t"
            if self.rng.random() < 0.9
            else self.rng.choice(("nowhere", "__consumer_offsets", "__transaction_state", ""))
        )
        self.say(
            *("add", self.rng.randrange(4), producer.name),
            id=producer.id,
            who=some_who(self.rng),
            topics={topic: partitions},
        )
        producer.open = True

    def add_as_broker(self, producer: _Producer) -> None:
        self.say(
            *("add many", self.rng.choice((4, 5)), producer.name),
            id=producer.id,
            who=some_who(self.rng),
            topics={"t": [self.rng.choice((0, 1, 7))]},
            verify=self.rng.random() < 0.5,
        )

    def produce(self, producer: _Producer) -> None:
        rng = self.rng
        how: dict[str, Any] = {"id": producer.id, "who": some_who(rng, 0.88), "topic": "t", "partition": 0}
        how["sequence"] = rng.choices(("next", "gap", "again", "zero"), (12, 1, 2, 1))[0]
        how["count"] = rng.choice((1, 1, 2, 5))
        how["partition"] = rng.choices((0, 1, 7), (10, 4, 1))[0]
        if rng.random() < 0.06:
            how["transactional"] = False
        if rng.random() < 0.04:
            how["id"] = rng.choice((None, "x9"))
        if rng.random() < 0.03:
            how["control"] = True
        if rng.random() < 0.03:
            how["lying"] = rng.choice((0, -1, 7, 2**31 - 1))
        self.say("produce", self.version(producer, (3, 5, 7, 9, 10, 11), 12), producer.name, **how)
        producer.open = True

    def add_offsets(self, producer: _Producer) -> None:
        group = "g0" if self.rng.random() < 0.9 else self.rng.choice(ODD_GROUPS)
        how = {"id": producer.id, "who": some_who(self.rng), "group": group}
        self.say("add offsets", self.rng.randrange(5), producer.name, **how)
        producer.open = True

    def keep(self, producer: _Producer) -> None:
        rng = self.rng
        version = self.version(producer, (0, 2, 3, 4), rng.choice((5, NEWEST_KEEP)))
        how: dict[str, Any] = {"id": producer.id, "who": some_who(rng), "group": "g0"}
        how["offsets"] = {rng.choice((0, 1)): rng.choice((0, 5, 10, 2**62, -1))}
        if rng.random() < 0.08:
            how["topic"] = rng.choice(("nowhere", "flights"))
        if rng.random() < 0.05:
            how["metadata"] = rng.choice(("é" * 3000, "x" * 4096, "x" * 4097, None))
        if version >= 3 and rng.random() < 0.12:
            how |= rng.choice(
                (
                    {"member": "nobody", "generation": 3},
                    {"generation": 0},
                    {"member": "nobody"},
                    {"instance": "i"},
                )
            )
        if rng.random() < 0.05:
            how["group"] = rng.choice(ODD_GROUPS)
        self.say("keep offsets", version, producer.name, **how)
        producer.open = True

    def end(self, producer: _Producer) -> None:
        id = producer.id if self.rng.random() < 0.97 else self.rng.choice(("", "x9"))
        how = {"id": id, "who": some_who(self.rng), "commit": self.rng.random() < 0.6}
        self.say("end", self.version(producer, (0, 1, 2, 3, 4), 5), producer.name, **how)
        producer.open = False

    def again(self, producer: _Producer) -> None:
        """The last request once more, or the end of it with another wish."""
        if self.steps and self.steps[-1].api in ("end", "add", "keep offsets", "init"):
            last = self.steps[-1]
            how = dict(last.how)
            if last.api == "end":
                how["who"] = self.rng.choice(("now", "before"))
                how["commit"] = self.rng.random() < 0.5
            self.steps.append(last._replace(how=how))

    def commit(self, producer: _Producer) -> None:
        offsets = {self.rng.choice((0, 1)): self.rng.choice((1, 2, 3))}
        self.say("commit", self.rng.randrange(2, 10), "reader", group="g0", topics={"t": offsets})

    def where(self, producer: _Producer) -> None:
        topics = {"t": [0, 1]} if self.rng.random() < 0.8 else None
        stable = self.rng.random() < 0.5
        groups = [{"group": "g0", "topics": topics}]
        version = self.rng.choice((7, 8, 9)) if stable else self.rng.choice((2, 5, 6, 7, 8, 9))
        self.say("fetch offsets", version, "reader", groups=groups, stable=stable)

    def forget(self, producer: _Producer) -> None:
        if self.rng.random() < 0.5:
            self.say("delete offsets", 0, "reader", group="g0", topics={"t": [self.rng.choice((0, 1, 7))]})
        else:
            self.say("delete groups", self.rng.randrange(3), "reader", groups=["g0"])

    def describe(self, producer: _Producer) -> None:
        ids = (
            [producer.id]
            if self.rng.random() < 0.7
            else [producer.id, *self.rng.sample(ODD_NAMES, 2), producer.id]
        )
        self.say("describe transactions", 0, "reader", ids=ids)

    def list_all(self, producer: _Producer) -> None:
        rng = self.rng
        version = rng.randrange(3)
        how: dict[str, Any] = {}
        if rng.random() < 0.5:
            how["states"] = rng.sample(STATES, rng.choice((1, 1, 2, 3)))
        if rng.random() < 0.4:
            how["producers"] = [(producer.name, some_who(rng, 0.6)) for _ in range(rng.choice((1, 2)))]
        if version >= 1 and rng.random() < 0.3:
            how["longer_ms"] = rng.choice((-1, 0, 3_600_000, -5, 2**63 - 1, -(2**63)))
        if version >= 2 and rng.random() < 0.7:
            how["pattern"] = rng.choice((*PATTERNS, "<prefix>.*", "<prefix>-x0", "<prefix>-x[01]", ".*-x1"))
        self.say("list transactions", version, "reader", **how)

    def producers_of(self, producer: _Producer) -> None:
        topics = self.rng.choice(({"t": [0, 1]}, {"t": [7]}, {"nowhere": [0]}, {"": [0]}, {"t": [-1]}, {}))
        self.say("describe producers", 0, "reader", topics=topics)

    def look(self, producer: _Producer) -> None:
        self.say("look", 0, "reader", partition=self.rng.choice((0, 1)))

    def mark(self) -> None:
        """A marker of a coordinator that is later than all others; the sequence is over with it."""
        rng = self.rng
        for _ in range(2):
            self.say(
                *("mark", rng.choice((1, 2)), "reader"),
                producer=self.producers[0].name,
                who=some_who(rng, 0.6),
                commit=rng.random() < 0.5,
                coordinator=rng.choice((1000, 1000, 999, -1)),
                partition=rng.choice((0, 0, 7)),
                txn_version=rng.choice((0, 0, 1, 2)),
            )
            self.look(self.producers[0])
        self.produce(self.producers[0])


_Kind = Callable[[_Plan, _Producer], None]
OTHER: dict[_Kind, int] = {
    _Plan.init: 3,
    _Plan.go_on: 3,
    _Plan.init_in_two_phases: 1,
    _Plan.add_as_broker: 2,
    _Plan.again: 4,
    _Plan.commit: 2,
    _Plan.where: 3,
    _Plan.forget: 2,
    _Plan.describe: 3,
    _Plan.list_all: 4,
    _Plan.producers_of: 2,
    _Plan.look: 3,
}
IDLE: dict[_Kind, int] = {
    _Plan.add: 12,
    _Plan.produce: 8,
    _Plan.add_offsets: 4,
    _Plan.keep: 4,
    _Plan.end: 4,
    **OTHER,
}
OPEN: dict[_Kind, int] = {
    _Plan.add: 3,
    _Plan.produce: 14,
    _Plan.add_offsets: 4,
    _Plan.keep: 7,
    _Plan.end: 14,
    **OTHER,
}


def transactions(rng: random.Random) -> list[Step]:
    """One sequence."""
    return _Plan(rng).draw()
