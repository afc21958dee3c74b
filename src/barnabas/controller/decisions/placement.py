"""Where the replicas of a new partition go: striped over racks, below them over hosts, then over brokers.

The first replica (the leader) goes to the next unfenced broker of the next rack; the others go round the
racks, unfenced brokers before fenced ones.  Both starts advance by one per partition, so leaders and
replicas spread evenly, and after as many partitions as there are unfenced brokers the order is drawn anew,
so that the same broker does not always follow the same other one.  A cluster without racks is one rack.

Several brokers of one host (`barnabas start --nodes`) fail together, so no host gets a second replica of a
partition while a broker of another host is left.  Apache Kafka does not look at hosts.

`place_by_number` is the other way (`barnabas.replica.placement=number`), the formula of the first replication
design: of n brokers in order, partition i goes to the (i mod n)-th.  Its further replicas go to brokers of which
the first moves on by one with each partition of that leader, so that all others inherit from a broker that dies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Generator, Iterable, Sequence
from typing import NamedTuple

from barnabas.controller.image import BrokerState
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.results import finished
from barnabas.model import NodeId
from barnabas.ports import Randomness

__all__ = ["place", "place_by_number", "place_in_steps"]

_DRAWS = 8
"""Orders drawn for a deal; the one is taken in which the fewest brokers inherit from the same one again."""


class _Candidate(NamedTuple):
    id: NodeId
    host: int
    """Brokers with the same number run on one host."""
    rack: str
    fenced: bool


def _candidates(brokers: Iterable[BrokerState]) -> list[_Candidate]:
    numbers: dict[tuple[str, ...], int] = {}
    return [
        _Candidate(one.id, numbers.setdefault(one.hosts, len(numbers)), one.rack or "", one.fenced)
        for one in brokers
        if not one.in_controlled_shutdown and not one.wholly_cordoned
    ]


class _Stripe:
    """Brokers in an order drawn by chance, dealt from a start that moves with each round (one per partition)."""

    __slots__ = ("_brokers", "_left", "_round", "_start")

    def __init__(self, brokers: Iterable[_Candidate], randomness: Randomness) -> None:
        self._brokers = sorted(brokers)
        for last in range(len(self._brokers) - 1, 0, -1):
            other = randomness.integer(0, last)
            self._brokers[last], self._brokers[other] = self._brokers[other], self._brokers[last]
        self._start = randomness.integer(0, len(self._brokers) - 1) if self._brokers else 0
        self._round = 0
        self._left = self._from(self._start)

    def next(self, round_: int, avoided: Collection[int]) -> _Candidate | None:
        """The next broker not yet dealt in this round that is on none of these hosts, None when there is none."""
        if round_ != self._round:
            self._round = round_
            self._start += 1
            self._left = self._from(self._start)
        for at, broker in enumerate(self._left):
            if broker.host not in avoided:
                return self._left.pop(at)
        return None

    def _from(self, start: int) -> list[_Candidate]:
        at = start % len(self._brokers) if self._brokers else 0
        return self._brokers[at:] + self._brokers[:at]


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[_Candidate], randomness: Randomness) -> None:
        self.unfenced = _Stripe((b for b in brokers if not b.fenced), randomness)
        self.fenced = _Stripe((b for b in brokers if b.fenced), randomness)

    def next(self, round_: int, avoided: Collection[int]) -> _Candidate | None:
        return self.unfenced.next(round_, avoided) or self.fenced.next(round_, avoided)


def place(
    brokers: Iterable[BrokerState], *, partitions: int, replicas: int, randomness: Randomness
) -> list[tuple[NodeId, ...]]:
    """Choose `replicas` brokers for each of `partitions` partitions; the first of each is to lead.

    Raises KafkaError(INVALID_REPLICATION_FACTOR).
    """
    steps = place_in_steps(brokers, partitions=partitions, replicas=replicas, randomness=randomness)
    return finished(steps)


def place_in_steps(
    brokers: Iterable[BrokerState], *, partitions: int, replicas: int, randomness: Randomness
) -> Generator[None, None, list[tuple[NodeId, ...]]]:
    """The same, a deal at a time."""
    usable = _usable(brokers, replicas)
    unfenced = sum(not broker.fenced for broker in usable)
    placed: list[tuple[NodeId, ...]] = []
    heirs: Counter[tuple[NodeId, ...]] = Counter()
    while len(placed) < partitions:
        rounds = min(unfenced, partitions - len(placed))
        draws = _DRAWS if replicas > 1 else 1
        deals = []
        for _ in range(draws):
            deals.append(_deal(usable, rounds, replicas, randomness))
            yield
        deal = min(deals, key=lambda one: sum(heirs[chosen[:2]] for chosen in one))
        heirs.update(chosen[:2] for chosen in deal)
        placed.extend(deal)
    return placed


def place_by_number(
    brokers: Iterable[BrokerState], *, first: int, partitions: int, replicas: int
) -> list[tuple[NodeId, ...]]:
    """The same by a formula: the partitions are numbered from `first` on; racks and hosts do not matter.

    Broker i leads its k-th partition, whose replica j is on broker (i + j + k) mod n; where that would be i
    again, the others are gone round once more.  A fenced broker gets only what the unfenced ones cannot take.
    Raises KafkaError(INVALID_REPLICATION_FACTOR).
    """
    usable = sorted(_usable(brokers, replicas))
    unfenced = [broker.id for broker in usable if not broker.fenced]
    fenced = [broker.id for broker in usable if broker.fenced]
    count = len(unfenced)
    placed = []
    for number in range(first, first + partitions):
        leader, nth = number % count, number // count
        followers = (
            unfenced[(leader + 1 + (j + nth) % (count - 1)) % count] for j in range(min(replicas, count) - 1)
        )
        placed.append((unfenced[leader], *followers, *fenced[: max(0, replicas - count)]))
    return placed


def _usable(brokers: Iterable[BrokerState], replicas: int) -> list[_Candidate]:
    """Who may take a replica.  Raises KafkaError(INVALID_REPLICATION_FACTOR) where they are too few."""
    usable = _candidates(brokers)
    unfenced = sum(not broker.fenced for broker in usable)
    if replicas <= 0:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"{replicas} replicas are too few for a partition"
        )
    if not unfenced:
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR, "no broker is ready to take a replica (none is unfenced)"
        )
    if replicas > len(usable):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replicas} is more than the {len(usable)} registered brokers",
        )
    return usable


def _deal(
    usable: Sequence[_Candidate], rounds: int, replicas: int, randomness: Randomness
) -> list[tuple[NodeId, ...]]:
    """Place up to as many partitions as there are unfenced brokers, with freshly drawn starts."""
    by_rack: dict[str, list[_Candidate]] = {}
    for broker in usable:
        by_rack.setdefault(broker.rack, []).append(broker)
    racks = [_Rack(by_rack[name], randomness) for name in sorted(by_rack)]
    start = randomness.integer(0, len(racks) - 1)
    return [_one(racks, start + round_, round_, replicas) for round_ in range(rounds)]


def _one(racks: Sequence[_Rack], start: int, round_: int, replicas: int) -> tuple[NodeId, ...]:
    chosen: list[NodeId] = []
    hosts: list[int] = []
    used: set[int] = set()
    for step in range(len(racks)):  # the leader
        broker = racks[(start + step) % len(racks)].unfenced.next(round_, ())
        if broker is not None:
            chosen.append(broker.id)
            hosts.append(broker.host)
            leaders_rack = (start + step) % len(racks)
            used.add(leaders_rack)
            break
    at = start
    passed_leader = False
    empty_handed = 0
    while len(chosen) < replicas:  # the others: once round without the leader's rack, then over all
        rack = at % len(racks)
        at += 1
        if rack == leaders_rack and not passed_leader:
            passed_leader = True
            empty_handed = 0
            continue
        broker = racks[rack].next(round_, hosts)
        if broker is None and (rack not in used or empty_handed >= len(racks)):
            broker = racks[rack].next(round_, ())
        used.add(rack)
        if broker is None:
            empty_handed += 1
            continue
        chosen.append(broker.id)
        hosts.append(broker.host)
        empty_handed = 0
    return tuple(chosen)
