"""What the commands about brokers look at first: who is there, what each carries, what a plan would copy.

look = Placement.of(admin)
plan = look.spread_over(look.targets())
print(look.cost(plan).text())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.cli.moves import ids, no_broker, placed
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError
from barnabas.model import NodeId, TopicPartition

if TYPE_CHECKING:
    from barnabas.client.admin.admin import Admin
    from barnabas.client.admin.log_dirs import BrokerDirs
    from barnabas.client.metadata import Broker

__all__ = ["Cost", "Placement", "byte_rate", "duration_text", "size_text"]

Plan = dict[TopicPartition, list[NodeId]]


class Cost(NamedTuple):
    """What a plan copies: partitions that change, replicas to copy, bytes, and the most that one broker takes."""

    partitions: int
    replicas: int
    bytes: int
    most_bytes: int

    def text(self, rate: int | None = None) -> str:
        """In words, with the least time it takes when each broker copies `rate` bytes per second."""
        parts = f"{self.partitions} {'partition' if self.partitions == 1 else 'partitions'}"
        copies = f"{self.replicas} {'replica' if self.replicas == 1 else 'replicas'} to copy"
        words = f"{parts}, {copies}, {size_text(self.bytes)}"
        if rate and self.most_bytes:
            words += f", at least {duration_text(self.most_bytes / rate)} at {size_text(rate)}/s"
        return words


class Placement:
    """Brokers, replicas and sizes as they are at one moment; what moves counts as where it is going."""

    def __init__(
        self,
        brokers: Mapping[NodeId, Broker],
        fenced: Collection[NodeId],
        replicas: Plan,
        dirs: Mapping[NodeId, BrokerDirs],
    ) -> None:
        self.brokers = brokers
        self.fenced = frozenset(fenced)
        self.replicas = replicas
        self.dirs = dirs
        self.cordoned = frozenset(one for one, found in dirs.items() if found.wholly_cordoned)
        self.sizes: dict[TopicPartition, int] = {}
        for found in dirs.values():
            for tp, size in found.sizes().items():
                self.sizes[tp] = max(size, self.sizes.get(tp, 0))

    @classmethod
    def of(cls, admin: Admin) -> Placement:
        """Ask for all of it.  A broker that does not answer counts as one whose directories are unknown."""
        cluster = admin.describe_cluster(fenced=True)
        dirs = {}
        for broker in cluster.brokers:
            if broker.id not in cluster.fenced:
                try:
                    dirs[broker.id] = admin.log_dirs(broker.id)
                except BarnabasError:  # it has just died, or is busy: it is shown as it is
                    continue
        return cls({b.id: b for b in cluster.brokers}, cluster.fenced, placed(admin), dirs)

    # -- who may carry what ----------------------------------------------------------------------

    def targets(self) -> list[NodeId]:
        """Brokers that serve and are not cordoned."""
        return sorted(self.brokers.keys() - self.fenced - self.cordoned)

    def state(self, broker: NodeId) -> str:
        """`unfenced`, `fenced`, `cordoned` or `gone` (replicas name it, nobody registered it)."""
        if broker not in self.brokers:
            return "gone"
        if broker in self.fenced:
            return "fenced"
        return "cordoned" if broker in self.cordoned else "unfenced"

    def counts(self) -> tuple[Counter[NodeId], Counter[NodeId]]:
        """Replicas, and preferred leaderships, by broker."""
        held = Counter(broker for replicas in self.replicas.values() for broker in replicas)
        return held, Counter(replicas[0] for replicas in self.replicas.values() if replicas)

    def named_by(self, broker: NodeId) -> list[TopicPartition]:
        """Partitions that name this broker as a replica."""
        return sorted(tp for tp, replicas in self.replicas.items() if broker in replicas)

    def spread_over(self, brokers: Iterable[NodeId], leaving: Collection[NodeId] = ()) -> Plan:
        """A plan after which these carry everything evenly and `leaving` nothing; who is away keeps what it has.

        Raises ConfigError when there are too few brokers for the replicas of a partition.
        """
        from barnabas.client.balance import balanced

        return self._planned(balanced, brokers, leaving)

    def moved_off(self, broker: NodeId) -> Plan:
        """A plan that moves what one broker carries to the others that may take replicas, and nothing else.

        Raises ConfigError when there is no other, or too few for the replicas of a partition.
        """
        from barnabas.client.balance import vacated

        others = [one for one in self.targets() if one != broker]
        if not others:
            cordoned = sorted(self.cordoned - {broker})
            lift = f", or lift a cordon: `barnabas brokers add {cordoned[0]}`" if cordoned else ""
            raise ConfigError(
                f"no other broker than {broker} may take replicas", next_step=f"start another one{lift}"
            )
        return self._planned(vacated, others, [broker])

    def _planned(
        self, planner: Callable[..., Plan], brokers: Iterable[NodeId], leaving: Collection[NodeId]
    ) -> Plan:
        racks = {one: broker.rack for one, broker in self.brokers.items()}
        hosts = {one: broker.host for one, broker in self.brokers.items()}
        into = {one: racks.get(one) for one in brokers}
        carrying = {one for replicas in self.replicas.values() for one in replicas}
        away = {one: racks.get(one) for one in sorted(carrying - into.keys() - set(leaving))}
        try:
            return planner(self.replicas, into, away, hosts=hosts)
        except ConfigError as error:
            if cordoned := sorted(self.cordoned - set(leaving)):
                named = " ".join(map(str, cordoned))
                error.next_step = (
                    f"broker {ids(cordoned)} is cordoned: `barnabas brokers add {named}` lifts that"
                )
            raise

    # -- what it costs ---------------------------------------------------------------------------

    def cost(self, plan: Mapping[TopicPartition, Sequence[NodeId]]) -> Cost:
        """What carrying out a plan copies; sizes are those of this moment."""
        copied = sum(len(set(replicas) - set(self.replicas[tp])) for tp, replicas in plan.items())
        taken = self._taken(plan)
        return Cost(len(plan), copied, sum(taken.values()), max(taken.values(), default=0))

    def _taken(self, plan: Mapping[TopicPartition, Sequence[NodeId]]) -> Counter[NodeId]:
        """The bytes that each broker has to copy."""
        taken: Counter[NodeId] = Counter()
        for tp, replicas in plan.items():
            for broker in set(replicas) - set(self.replicas[tp]):
                taken[broker] += self.sizes.get(tp, 0)
        return taken

    def check_room(self, plan: Mapping[TopicPartition, Sequence[NodeId]]) -> None:
        """Raises KafkaError when a broker has too little room on its disks for what it would take."""
        for broker, size in sorted(self._taken(plan).items()):
            room = self.dirs[broker].usable_bytes if broker in self.dirs else -1
            if 0 <= room < size:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"broker {broker} would take {size_text(size)} and has {size_text(room)} free",
                    next_step="name other brokers with --brokers, or give it more disk",
                )

    def unknown(self, broker: NodeId) -> KafkaError:
        """The error of a command about a broker that nobody registered."""
        return no_broker(broker, self.brokers)

    def check_serving(self, brokers: Iterable[NodeId]) -> None:
        """Raises ConfigError when one of these does not serve."""
        for broker in brokers:
            if broker not in self.brokers or broker in self.fenced:
                is_ = "is fenced (it does not run)" if broker in self.brokers else "is not registered"
                raise ConfigError(
                    f"broker {broker} {is_}; there are {ids(sorted(self.brokers))}",
                    next_step=f"start broker {broker}, and look at `barnabas brokers list`",
                )


def size_text(size: float) -> str:
    """`size_text(1536)` -> "1.5 KiB"; "?" for what is not known."""
    if size < 0:
        return "?"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def duration_text(seconds: float) -> str:
    """`duration_text(90)` -> "1 min 30 s"."""
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{max(rest, 1)} s"


_UNITS = {"k": 1000, "m": 1000**2, "g": 1000**3, "ki": 1024, "mi": 1024**2, "gi": 1024**3, "": 1}


def byte_rate(text: str) -> int:
    """`byte_rate("10M")` -> 10000000 bytes per second.  Raises ConfigError."""
    word = text.lower().removesuffix("/s").removesuffix("b").strip()
    number = word.rstrip("kmgi")
    try:
        rate = int(float(number) * _UNITS[word[len(number) :]])
        if rate <= 0:
            raise ValueError("not positive")
    except (ValueError, KeyError, OverflowError) as error:
        raise ConfigError(
            f"--throttle {text} is no rate", next_step="say bytes per second: 500K, 10M, 1Gi"
        ) from error
    return rate
