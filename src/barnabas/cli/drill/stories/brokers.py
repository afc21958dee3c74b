"""Five brokers in three racks, 100 partitions; two come, one is drained, the active controller dies midway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from barnabas.cli.drill.stage import DrillError, Stage
from barnabas.cli.moves import placed
from barnabas.client.admin.admin import Admin
from barnabas.model import NodeId, TopicPartition

__all__ = ["least_copies", "play"]

RACKS = {11: "a", 12: "b", 13: "c", 14: "a", 15: "b", 16: "c", 17: "a"}
FIRST, GOES = (11, 12, 13, 14, 15), 11
MORE = 1.1
"""So many times the least number of copies may be made."""


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(*FIRST, racks="".join(RACKS[id_] for id_ in FIRST))
    stage.type("topics create orders --partitions 97 --replication-factor 3")
    for newcomer in (16, 17):
        stage.node(newcomer, "broker", broker_rack=RACKS[newcomer])
        stage.format(newcomer, quiet=True)
    stage.start(16, 17)
    stage.until("all are unfenced", lambda: set(RACKS) <= stage.unfenced())
    stage.type("brokers list")
    stage.why("Two came. They get their share; only what that takes is copied.")
    with _few_copies(stage, RACKS):
        stage.type("brokers add 16 17 --wait")
    stage.why(
        f"Broker {GOES} shall go. The plan is begun, and the active controller dies: its successor goes on."
    )
    with _few_copies(stage, sorted(set(RACKS) - {GOES})):
        stage.type(f"brokers drain {GOES}")
        stage.kill(stage.leader())
        stage.type(
            f"brokers drain {GOES} --wait", shows=f"Broker {GOES} carries nothing and gets nothing", again=15
        )
    stage.type("brokers list")
    stage.why(f"New topics: nothing of them is on {GOES}.")
    stage.type("topics create later --partitions 12 --replication-factor 3", again=10)
    stage.flowing()
    if named := [tp for tp, replicas in _placement(stage).items() if GOES in replicas]:
        raise DrillError(f"{len(named)} partitions are on {GOES}: {named[:3]}")
    stage.stop(GOES)
    stage.type(f"brokers unregister {GOES}", again=15)
    stage.flowing()


@contextmanager
def _few_copies(stage: Stage, carrying: Iterable[NodeId]) -> Iterator[None]:
    """Check that what is done inside leaves each rack's brokers even, with hardly more copies than that takes.

    A partition keeps its copy in each rack, so that racks need not be even.  No topic is made meanwhile: chance
    places those.  Records flow on.
    """
    traffic = stage.traffic
    assert traffic is not None
    with traffic.no_new_topics():
        before = _placement(stage)
        yield
        after = stage.until("nothing moves", lambda: None if _moving(stage) else _placement(stage))
    held = Counter(broker for replicas in before.values() for broker in replicas)
    holds = Counter(broker for replicas in after.values() for broker in replicas)
    racks: dict[str, list[NodeId]] = {}
    for broker in sorted(carrying):
        racks.setdefault(RACKS[broker], []).append(broker)
    least = sum(
        least_copies([held[broker] for broker in rack], sum(holds[broker] for broker in rack))
        for rack in racks.values()
    )
    made = sum(len(set(after[tp]) - set(before[tp])) for tp in before)
    spread = max(max(holds[b] for b in rack) - min(holds[b] for b in rack) for rack in racks.values())
    counts = ", ".join(f"{broker}: {holds[broker]}" for rack in racks.values() for broker in rack)
    stage.see(f"{made} replicas were copied, {least} is the least; now {counts}")
    if made > least * MORE or spread > 1:
        raise DrillError(f"{made} copies ({least} is the least), brokers differ by {spread}: {counts}")


def least_copies(held: list[int], wanted: int) -> int:
    """Replicas that brokers with so many each must get, until they have `wanted` and differ by one at most.

    `least_copies([5, 5, 0], 10)` -> 3
    """
    share, more = divmod(wanted, len(held))
    quotas = [share + (place < more) for place in range(len(held))]
    return sum(max(0, quota - has) for quota, has in zip(quotas, sorted(held, reverse=True), strict=True))


def _placement(stage: Stage) -> dict[TopicPartition, list[NodeId]]:
    with Admin(stage.bootstrap, timeout=5.0) as admin:
        return placed(admin)


def _moving(stage: Stage) -> bool:
    with Admin(stage.bootstrap, timeout=5.0) as admin:
        return bool(admin.moves())
