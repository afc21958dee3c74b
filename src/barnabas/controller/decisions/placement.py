"""Where the replicas of a new partition go: striped over racks, then over the brokers of a rack.

The first replica (the leader) goes to the next unfenced broker of the next rack; the others go round the
racks, unfenced brokers before fenced ones.  Both starts advance by one per partition, so leaders and
replicas spread evenly, and after as many partitions as there are unfenced brokers the order is drawn anew,
so that the same broker does not always follow the same other one.  A cluster without racks is one rack.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterable, Sequence

from barnabas.controller.image import BrokerState
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.results import finished
from barnabas.model import NodeId
from barnabas.ports import Randomness

__all__ = ["place", "place_in_steps"]

_DRAWS = 8
"""Orders drawn for a deal; the one is taken in which the fewest brokers inherit from the same one again."""


class _Stripe:
    """Brokers in an order drawn by chance, dealt from a start that moves with each round (one per partition)."""

    __slots__ = ("_brokers", "_dealt", "_round", "_start")

    def __init__(self, brokers: Iterable[NodeId], randomness: Randomness) -> None:
        self._brokers = sorted(brokers)
        for last in range(len(self._brokers) - 1, 0, -1):
            other = randomness.integer(0, last)
            self._brokers[last], self._brokers[other] = self._brokers[other], self._brokers[last]
        self._start = randomness.integer(0, len(self._brokers) - 1) if self._brokers else 0
        self._round = 0
        self._dealt = 0

    def next(self, round_: int) -> NodeId | None:
        """The next broker not yet dealt in this round, None when all were."""
        if round_ != self._round:
            self._round, self._dealt = round_, 0
            self._start += 1
        if self._dealt == len(self._brokers):
            return None
        self._dealt += 1
        return self._brokers[(self._start + self._dealt - 1) % len(self._brokers)]


class _Rack:
    __slots__ = ("fenced", "unfenced")

    def __init__(self, brokers: Sequence[BrokerState], randomness: Randomness) -> None:
        self.unfenced = _Stripe((b.id for b in brokers if not b.fenced), randomness)
        self.fenced = _Stripe((b.id for b in brokers if b.fenced), randomness)

    def next(self, round_: int) -> NodeId | None:
        broker = self.unfenced.next(round_)
        return self.fenced.next(round_) if broker is None else broker


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
    usable = [b for b in brokers if not b.in_controlled_shutdown and not _wholly_cordoned(b)]
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


def _deal(
    usable: Sequence[BrokerState], rounds: int, replicas: int, randomness: Randomness
) -> list[tuple[NodeId, ...]]:
    """Place up to as many partitions as there are unfenced brokers, with freshly drawn starts."""
    by_rack: dict[str, list[BrokerState]] = {}
    for broker in usable:
        by_rack.setdefault(broker.rack or "", []).append(broker)
    racks = [_Rack(by_rack[name], randomness) for name in sorted(by_rack)]
    start = randomness.integer(0, len(racks) - 1)
    return [_one(racks, start + round_, round_, replicas) for round_ in range(rounds)]


def _one(racks: Sequence[_Rack], start: int, round_: int, replicas: int) -> tuple[NodeId, ...]:
    chosen: list[NodeId] = []
    for step in range(len(racks)):  # the leader
        broker = racks[(start + step) % len(racks)].unfenced.next(round_)
        if broker is not None:
            chosen.append(broker)
            leaders_rack = (start + step) % len(racks)
            break
    at = start
    passed_leader = False
    while len(chosen) < replicas:  # the others: once round without the leader's rack, then over all
        rack = at % len(racks)
        at += 1
        if rack == leaders_rack and not passed_leader:
            passed_leader = True
            continue
        broker = racks[rack].next(round_)
        if broker is not None:
            chosen.append(broker)
    return tuple(chosen)


def _wholly_cordoned(broker: BrokerState) -> bool:
    return bool(broker.directories) and set(broker.directories) <= set(broker.cordoned)
