"""Which partitions have to move so that brokers that come get their share, and those that go are left empty.

    plan = balanced({TopicPartition("orders", 0): (1, 2, 3), ...}, {1: None, 2: None, 3: None, 4: None})
    plan = vacated({TopicPartition("orders", 0): (1, 2, 3), ...}, {1: None, 2: None, 4: None})

Brokers that are away for a while (`away`) keep what they have and get nothing: their replicas are not lost,
and copying them elsewhere is what nobody asked for.

The plan names only what changes.  Replicas are moved one at a time from the broker that has most to the one
that has least, until they differ by one at most, so no more data moves than that takes; then leaders are
spread by changing the order of replicas, which moves nothing.  A partition never ends up in fewer racks, or in
as many racks on fewer hosts, than it was in.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence

from barnabas.errors import ConfigError
from barnabas.model import NodeId, TopicPartition

__all__ = ["balanced", "copies", "vacated"]


def balanced(
    current: Mapping[TopicPartition, Sequence[NodeId]],
    brokers: Mapping[NodeId, str | None],
    away: Mapping[NodeId, str | None] | None = None,
    *,
    hosts: Mapping[NodeId, str] | None = None,
) -> dict[TopicPartition, list[NodeId]]:
    """The replicas that partitions should have for `brokers` (id: rack) to carry them evenly; only changes.

    Replicas on brokers that are neither here nor `away` (id: rack) go elsewhere.  Brokers with the same host in
    `hosts` fail together; one that is not in it has a host for itself.  Raises ConfigError when a
    partition has more replicas than there are brokers for.
    """
    spread = _Spread(current, brokers, away or {}, hosts or {})
    spread.leave_others()
    spread.part_hosts()
    spread.even_out()
    spread.even_out_by_others()
    spread.even_out_leaders()
    return spread.changes()


def vacated(
    current: Mapping[TopicPartition, Sequence[NodeId]],
    brokers: Mapping[NodeId, str | None],
    away: Mapping[NodeId, str | None] | None = None,
    *,
    hosts: Mapping[NodeId, str] | None = None,
) -> dict[TopicPartition, list[NodeId]]:
    """Move only what is on brokers that are neither here nor `away`, each replica to the broker with fewest.

    Arguments, result and errors are those of `balanced`, which also evens out what the others carry.
    """
    spread = _Spread(current, brokers, away or {}, hosts or {})
    spread.leave_others()
    return spread.changes()


def copies(
    current: Mapping[TopicPartition, Sequence[NodeId]], plan: Mapping[TopicPartition, Sequence[NodeId]]
) -> int:
    """How many replicas have to be copied to another broker."""
    return sum(len(set(replicas) - set(current.get(where, ()))) for where, replicas in plan.items())


class _Spread:
    """The assignment while it is changed."""

    def __init__(
        self,
        current: Mapping[TopicPartition, Sequence[NodeId]],
        brokers: Mapping[NodeId, str | None],
        away: Mapping[NodeId, str | None],
        hosts: Mapping[NodeId, str],
    ) -> None:
        for where, replicas in current.items():
            if len([broker for broker in replicas if broker not in away]) > len(brokers):
                raise ConfigError(
                    f"{where.topic}-{where.partition} has {len(replicas)} replicas, "
                    f"that is more than {len(brokers)} brokers",
                    next_step="name more brokers, or give the topic fewer replicas first",
                )
        self.hosts = {broker: hosts.get(broker, str(broker)) for broker in (*away, *brokers)}
        self.racks = {broker: rack or "" for broker, rack in {**away, **brokers}.items()}
        self.away = away
        self.current = current
        self.replicas = {where: list(current[where]) for where in sorted(current)}
        self.moved: Counter[TopicPartition] = Counter()
        self.held: dict[NodeId, set[TopicPartition]] = {broker: set() for broker in sorted(brokers)}
        for where, replicas in self.replicas.items():
            for broker in replicas:
                if broker in self.held:
                    self.held[broker].add(where)

    def changes(self) -> dict[TopicPartition, list[NodeId]]:
        """Return the partitions whose replicas, or their order, are others now."""
        return {
            where: replicas
            for where, replicas in self.replicas.items()
            if list(self.current[where]) != replicas
        }

    def leave_others(self) -> None:
        """Move replicas from brokers that are neither ours nor away to the broker that has least."""
        for where, replicas in self.replicas.items():
            for place, broker in enumerate(replicas):
                if broker not in self.held and broker not in self.away:
                    others = [other for other in replicas if other != broker]
                    fitting = [candidate for candidate in self.held if candidate not in replicas]
                    best = min(
                        fitting, key=lambda one: (self._nearness(one, others), len(self.held[one]), one)
                    )
                    replicas[place] = best
                    self.held[best].add(where)

    def part_hosts(self) -> None:
        """Move replicas that share a host with another one of theirs, where a host without one is left."""
        for where, replicas in self.replicas.items():
            for place, broker in enumerate(replicas):
                others = [other for other in replicas if other != broker]
                if broker not in self.held or not self._nearness(broker, others)[1]:
                    continue
                apart = [
                    one
                    for one in self.held
                    if one not in replicas
                    and not self._nearness(one, others)[1]
                    and self._spread_allows(where, broker, one)
                ]
                if apart:
                    best = min(apart, key=lambda one: (len(self.held[one]), one))
                    replicas[place] = best
                    self.held[broker].remove(where)
                    self.held[best].add(where)

    def _nearness(self, candidate: NodeId, others: Iterable[NodeId]) -> tuple[bool, bool]:
        """Whether it shares a rack, and a host, with one of these."""
        return (
            any(self.racks[candidate] == self.racks.get(other) for other in others),
            any(self.hosts[candidate] == self.hosts.get(other) for other in others),
        )

    def even_out(self) -> None:
        """Move replicas from the broker with most to the one with least, while they differ by more than one."""
        stuck: set[NodeId] = set()
        while True:
            full = [broker for broker in self.held if broker not in stuck]
            if not full:
                return
            most = max(full, key=lambda broker: (len(self.held[broker]), -broker))
            if not self._relieve(most):
                stuck.add(most)

    def even_out_by_others(self) -> None:
        """Where racks leave brokers apart: move a replica to a broker that then moves another one on.

        What the fullest broker has may have to stay in its rack, where all are full, while another broker of that
        rack has something that may leave it.
        """
        stuck: set[NodeId] = set()
        while full := [broker for broker in self.held if broker not in stuck]:
            most = max(full, key=lambda broker: (len(self.held[broker]), -broker))
            stuck |= self._relieve_by_others(most)

    def _relieve(self, most: NodeId) -> bool:
        """Move replicas away from `most`, to the broker that has least and can take one."""
        share = sum(map(len, self.held.values())) / len(self.held)
        for least in sorted(self.held, key=lambda broker: (len(self.held[broker]), broker)):
            if len(self.held[least]) >= len(self.held[most]) - 1:
                return False
            # Half of what both are away from their share: as few moves, and not a search for each of thousands.
            several = int(min(len(self.held[most]) - share, share - len(self.held[least])) / 2)
            if self._hand_over(most, least, max(1, several)):
                return True
        return False

    def _hand_over(self, most: NodeId, least: NodeId, several: int) -> bool:
        """Move up to `several` replicas from one broker to another; whether there was one."""
        done = 0
        for where in self._by_need(most, least):
            if least not in self.replicas[where] and self._spread_allows(where, most, least):
                replicas = self.replicas[where]
                replicas[replicas.index(most)] = least
                self.held[most].remove(where)
                self.held[least].add(where)
                self.moved[where] += 1
                done += 1
                if done == several:
                    break
        return done > 0

    def _relieve_by_others(self, most: NodeId) -> set[NodeId]:
        """Take one replica from `most`; who cannot be relieved so (all that handovers reach), or nobody."""
        came: dict[NodeId, tuple[NodeId, TopicPartition]] = {}
        queue = deque([most])
        while queue:
            broker = queue.popleft()
            if len(self.held[broker]) <= len(self.held[most]) - 2:
                return set() if self._hand_on(most, broker, came) else {most}
            for other in sorted(self.held.keys() - came.keys() - {most}):
                where = self._movable(broker, other)
                if where is not None:
                    came[other] = (broker, where)
                    queue.append(other)
        return {most, *came}

    def _hand_on(
        self, most: NodeId, last: NodeId, came: Mapping[NodeId, tuple[NodeId, TopicPartition]]
    ) -> bool:
        """Carry out the handovers that end at `last`; not where two of them concern one partition."""
        path = []
        while last != most:
            source, where = came[last]
            path.append((source, where, last))
            last = source
        if len({where for _, where, _ in path}) < len(path):
            return False
        for source, where, target in path:
            replicas = self.replicas[where]
            replicas[replicas.index(source)] = target
            self.held[source].remove(where)
            self.held[target].add(where)
            self.moved[where] += 1
        return True

    def _movable(self, source: NodeId, target: NodeId) -> TopicPartition | None:
        """A partition of `source` that may go to `target`: first one that it would have to copy anyway."""
        found = [
            where
            for where in self.held[source]
            if target not in self.replicas[where] and self._spread_allows(where, source, target)
        ]
        return min(
            found, key=lambda where: (source in self.current[where], self.moved[where], where), default=None
        )

    def _by_need(self, most: NodeId, least: NodeId) -> list[TopicPartition]:
        """What `most` holds: first partitions that have lost least, of topics that it has most of beside `least`.

        So that a topic is spread over all brokers, and no partition has to copy all of its replicas at once.
        """
        surplus = Counter(where.topic for where in self.held[most])
        surplus.subtract(where.topic for where in self.held[least])
        need: dict[TopicPartition, tuple[int, int]] = {}
        for where in sorted(self.held[most]):
            need[where] = (self.moved[where], -surplus[where.topic])
            surplus[where.topic] -= 2  # if it goes, one has one fewer, the other one more
        return sorted(need, key=need.__getitem__)

    def _spread_allows(self, where: TopicPartition, out: NodeId, into: NodeId) -> bool:
        before = self.replicas[where]
        after = [into if broker == out else broker for broker in before]
        return self._width(after) >= self._width(before)

    def _width(self, replicas: Sequence[NodeId]) -> tuple[int, int]:
        """Over how many racks, and over how many hosts."""
        return len({self.racks[one] for one in replicas}), len({self.hosts[one] for one in replicas})

    def even_out_leaders(self) -> None:
        """Spread first replicas as evenly as the replicas allow, by changing their order only."""
        led: dict[NodeId, set[TopicPartition]] = {broker: set() for broker in self.held}
        for where, replicas in self.replicas.items():
            if replicas[0] in led:  # who is away leads again when it is back
                led[replicas[0]].add(where)
        settled: set[NodeId] = set()
        while len(settled) < len(led):
            most = max((broker for broker in led if broker not in settled), key=lambda b: (len(led[b]), -b))
            path = self._path(most, led)
            if path is None:
                settled.add(most)
                continue
            for source, where, target in path:
                replicas = self.replicas[where]
                place = replicas.index(target)
                replicas[0], replicas[place] = replicas[place], replicas[0]
                led[source].remove(where)
                led[target].add(where)

    def _path(
        self, most: NodeId, led: Mapping[NodeId, set[TopicPartition]]
    ) -> list[tuple[NodeId, TopicPartition, NodeId]] | None:
        """Handovers from `most`, one to the next, that end at a broker that leads at least two fewer."""
        came: dict[NodeId, tuple[NodeId, TopicPartition]] = {}
        queue = deque([most])
        while queue:
            broker = queue.popleft()
            if len(led[broker]) <= len(led[most]) - 2:
                path = []
                while broker != most:
                    source, where = came[broker]
                    path.append((source, where, broker))
                    broker = source
                return path[::-1]
            for where in sorted(led[broker]):
                for other in self.replicas[where][1:]:
                    if other != most and other in led and other not in came:
                        came[other] = (broker, where)
                        queue.append(other)
        return None
