"""Seeds of a cluster with groups of consumers: who takes part, what is drawn for it, and how the end is judged.

`run_group_seed(17)` runs the cluster, the faults and the operator of seed 17 with these clients instead of the
usual ones: random numbers of their own leave the usual seeds what they are.
"""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from barnabas.model import TopicPartition
from barnabas.sim.cluster.clients.contact import Contact, Timing
from barnabas.sim.cluster.clients.groups.balance import check_balance
from barnabas.sim.cluster.clients.groups.classic import ClassicMember
from barnabas.sim.cluster.clients.groups.client import GroupKnown, PositionReader
from barnabas.sim.cluster.clients.groups.instance import Instance, Plan
from barnabas.sim.cluster.clients.groups.member import NewProtocolMember
from barnabas.sim.cluster.clients.groups.mixing import mixed_parts
from barnabas.sim.cluster.clients.groups.operating import GroupOperator
from barnabas.sim.cluster.clients.groups.positions import Place
from barnabas.sim.cluster.seed_run import ClusterReport, run_seed
from barnabas.sim.cluster.setup import Setup
from barnabas.sim.kernel.report import InvariantViolation

if TYPE_CHECKING:
    from barnabas.sim.cluster.world import World

__all__ = ["GroupWorkload", "run_group_seed"]

SETTLED_WITHIN = 80.0
"""Seconds after the faults' end (a cluster has 90 to be whole)."""
LOOK_EVERY = 0.1
OWN_TOPICS = ("x0", "x1")
"""Topics that come and go."""


def run_group_seed(seed: int, *, story: bool = False) -> ClusterReport:
    """Run one seed with members of consumer groups."""
    return run_seed(seed, story=story, clients=GroupWorkload, setup=_setup(seed), workload="groups")


def _setup(seed: int) -> Setup:
    rng = random.Random(f"groups setup {seed}")
    drawn = Setup.of(random.Random(f"cluster setup {seed}"))
    settings = {
        "offsets.topic.num.partitions": rng.choice((1, 2)),
        "offsets.commit.timeout.ms": rng.choice((1_000, 5_000)),
        "group.min.session.timeout.ms": 1_000,
        "group.consumer.min.session.timeout.ms": 1_000,
        "group.consumer.session.timeout.ms": rng.choice((3_000, 6_000)),
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 500,
        "group.consumer.assignment.interval.ms": rng.choice((0, 1_000)),
        "group.consumer.regex.refresh.interval.ms": rng.choice((10_000, 600_000)),
    }
    return replace(drawn, settings=(*drawn.settings, *((k, str(v)) for k, v in settings.items())))


class _Group:
    """The members of one group."""

    def __init__(self, name: str) -> None:
        self.known = GroupKnown(name)
        self.members: list[Instance] = []
        self.reader: PositionReader | None = None

    @property
    def living(self) -> list[Instance]:
        return [member for member in self.members if not member.mortal]


class GroupWorkload:
    """All clients of a world.  The topics are there when they begin."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = random.Random(f"groups {world.seed}")
        self.where = TopicPartition(world.setup.topics[0].name, 0)
        self.groups: list[_Group] = []
        self.operators: list[GroupOperator] = []
        self._finished_at: float | None = None
        self._looked_at = -1.0
        self._done = False

    def __repr__(self) -> str:
        return f"<GroupWorkload {self.waiting()} {self.counts}>"

    def _contact(self, name: str, *topics: str) -> Contact:
        timing = Timing.of(self.rng)._replace(request=self.rng.choice((1.0, 2.5)))
        return Contact(self.world.client(name), [*(topics or (self.where.topic,))], timing)

    # ---- who takes part ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Start everybody."""
        protocols = random.Random(f"groups protocols {self.world.seed}")
        classic = protocols.random() < 0.6
        for number in range(self.rng.choice((1, 2))):
            group = _Group(f"group{number}")
            self.groups.append(group)
            if classic and protocols.random() < 0.75:
                self._mixed_members(group, protocols)
            else:
                self._members(group)
        known = [group.known for group in self.groups]
        operator = GroupOperator(self._contact("group operator"), known, self.where, OWN_TOPICS)
        self.operators.append(operator)
        operator.contact.machine.spawn(operator.work(), operator.contact.name)

    def _members(self, group: _Group) -> None:
        rng = self.rng
        session = self.world.setup.setting("group.consumer.session.timeout.ms") / 1000
        names = tuple(topic.name for topic in self.world.setup.topics)
        plan = Plan(
            topics=rng.choice((names, (*names, OWN_TOPICS[0]), (names[0],))),
            session=session,
            rebalance=rng.choice((1.5, 4.0, 10.0)),
            interval=rng.choice((0.2, 0.4)),
            assignor=rng.choice((None, None, "uniform", "range")),
            restless=rng.choice((0.02, 0.05, 0.1)),
        )
        patterns = rng.random() < 0.4
        mixed = rng.random() < 0.3
        for number in range(1, rng.choice((3, 4, 5))):
            own = plan
            if patterns and rng.random() < 0.6:
                own = own._replace(topics=(), regex=rng.choice(("t.*", "[tx][01]", "x.*")))
            elif mixed:
                own = own._replace(other_topics=rng.choice(((names[0],), (*names, *OWN_TOPICS))))
            instances = 1
            if rng.random() < 0.3:
                own = own._replace(instance_id=f"instance{number}")
                instances = rng.choice((1, 2))
            for instance in range(instances):
                contact = self._contact(f"{group.known.id} member{number}{'ab'[instance]}")
                mortal = instance > 0 or (number > 1 and rng.random() < 0.3)
                member = NewProtocolMember(contact, group.known, self.where, own, mortal=mortal)
                group.members.append(member)
                contact.machine.spawn(member.work(), contact.name)

    def _mixed_members(self, group: _Group, rng: random.Random) -> None:
        session = self.world.setup.setting("group.consumer.session.timeout.ms") / 1000
        names = tuple(topic.name for topic in self.world.setup.topics)
        for client, kind, plan, mortal in mixed_parts(rng, names, session):
            contact = self._contact(f"{group.known.id} {client}", *names)
            member = kind(contact, group.known, self.where, plan, mortal=mortal)
            group.members.append(member)
            contact.machine.spawn(member.work(), contact.name)

    # ---- the end -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        """The end begins; `done` says when it is over."""
        self._finished_at = self.world.time
        for operator in self.operators:
            operator.finish()
        for group in self.groups:
            for member in group.members:
                member.finish()

    @property
    def done(self) -> bool:
        """Whether all groups are in order and their positions were read.  Raises InvariantViolation: G5."""
        now = self.world.time
        if self._done or self._finished_at is None or now < self._looked_at + LOOK_EVERY:
            return self._done
        self._looked_at = now
        for group in self.groups:
            if group.reader is None and self._settled(group) is None:
                for member in group.members:
                    member.quiet = True
                reader = PositionReader(self._contact(f"reader of {group.known.id}"), group.known, self.where)
                group.reader = reader
                reader.contact.machine.spawn(reader.read_all(), reader.contact.name)
        self._done = all(group.reader is not None and group.reader.done for group in self.groups)
        if not self._done and now > self._finished_at + SETTLED_WITHIN:
            raise InvariantViolation(
                "G5", f"{SETTLED_WITHIN} s after everything was mended, {self.waiting()}"
            )
        return self._done

    def _wanted(self, group: _Group) -> dict[str, set[Place]]:
        """What each living member subscribes to, by its name."""
        image = self.world.image
        assert image is not None
        wanted: dict[str, set[Place]] = {}
        for member in group.living:
            regex = member.plan.regex
            wanted[member.contact.name] = {
                (topic.id, index)
                for name, topic in image.topics_by_name.items()
                if name in member.topics or (regex and re.fullmatch(regex, name))
                for index in topic.partitions
            }
        return wanted

    def _settled(self, group: _Group) -> str | None:
        """What is missing of G5; None when nothing is."""
        if not all(operator.done for operator in self.operators):
            return "the operator is not done"
        if any(not member.dead for member in group.members if member.mortal):
            return f"{group.known.id}: somebody shall go, and has not"
        for member in group.living:
            if not member.settled:
                return f"{member!r} is not where it shall be"
        epochs = {member.epoch for member in group.living}
        if len(epochs) > 1:
            return f"{group.known.id} has members in epochs {sorted(epochs)}"
        assignors = {one for member in group.living if (one := member.server_assignor) is not None}
        owned = {member.contact.name: set(member.owned) for member in group.living}
        ranks = {
            m.contact.name: (m.plan.instance_id is None, m.plan.instance_id or m.group_name)
            for m in group.living
        }
        return check_balance(self._wanted(group), owned, assignors, ranks)

    def waiting(self) -> str:
        """What keeps `done` from being so."""
        found = [wanting for group in self.groups if (wanting := self._settled(group)) is not None]
        found += [
            repr(group.reader) for group in self.groups if group.reader is not None and not group.reader.done
        ]
        return "; ".join(found) or "nothing is missing"

    def check(self) -> None:
        """What was to be judged was judged as it happened."""

    @property
    def counts(self) -> dict[str, int]:
        """What was done, for reports."""
        members = [member for group in self.groups for member in group.members]
        positions = [group.known.positions for group in self.groups]
        classic = [member for member in members if isinstance(member, ClassicMember)]
        return {
            "members": len(members),
            "classic members": len(classic),
            "classic rebalances": sum(member.rebalances for member in classic),
            "changes of protocol seen": sum(member.changes for member in classic),
            "fenced": sum(member.fenced for member in members),
            "left": sum(member.left for member in members),
            "silences": sum(member.silences for member in members),
            "given up": sum(member.given_up for member in members),
            "commits": sum(one.numbers for one in positions),
            "stale commits refused": sum(one.refused for one in positions),
            "positions read": sum(one.reads for one in positions),
            "moves": sum(operator.moved for operator in self.operators),
            "topics made": sum(operator.made for operator in self.operators),
            "topics deleted": sum(operator.deleted for operator in self.operators),
            "partitions added": sum(operator.grown for operator in self.operators),
            "positions deleted": sum(operator.positions for operator in self.operators),
        }
