"""Faults between a decision and its markers: the few milliseconds that faults at random seldom fall into.

When a producer asks for the end of a transaction, a `Striker` sometimes waits for one of three moments: a
coordinator has decided and a leader still has to write its marker; the leader has appended the marker, and not all
in-sync replicas have it; all markers are written, and the coordinator writes that down.  Then a machine fails.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.sim.kernel.fault import both_ways

if TYPE_CHECKING:
    from barnabas.broker.transactions.markers import Ending
    from barnabas.model import ProducerId, TopicPartition
    from barnabas.sim.cluster.clients.transactions.record import Attempt
    from barnabas.sim.cluster.node import SimNode
    from barnabas.sim.cluster.world import World

__all__ = ["Striker"]

_LOOK_EVERY_S = 0.0002
_LOOKS = 250
_DOWN_S = (0.05, 3.0)


class Striker:
    """Strikes at so large a `share` of all ends."""

    def __init__(self, world: World, rng: random.Random, share: float) -> None:
        self.world, self.rng, self.share = world, rng, share
        self.struck = 0

    def __repr__(self) -> str:
        return f"<Striker struck={self.struck}>"

    def asked(self, attempt: Attempt) -> None:
        """A producer asks for the end of a transaction."""
        if not attempt.records or self.rng.random() >= self.share:
            return
        where = self.rng.choice(attempt.records).where
        strike = self.rng.choice((self._decided, self._appended, self._complete))
        self._wait(attempt.producer_id, where, strike, _LOOKS)

    def _wait(
        self,
        producer_id: ProducerId,
        where: TopicPartition,
        strike: Callable[[ProducerId, TopicPartition, SimNode], bool],
        looks: int,
    ) -> None:
        """Look again and again, until it is the moment."""
        world = self.world
        leader = world.leader_of(*where)
        if world.calm or not looks:
            return
        if leader is not None and _runs(leader) and strike(producer_id, where, leader):
            self.struck += 1
        else:
            world.at(_LOOK_EVERY_S, lambda: self._wait(producer_id, where, strike, looks - 1))

    # ---- a coordinator has decided -----------------------------------------------------------------------

    def _decided(self, producer_id: ProducerId, where: TopicPartition, leader: SimNode) -> bool:
        coordinator = self._coordinator(lambda one: one.producer_id == producer_id and where in one.left)
        if coordinator is None:
            return False
        what = self.rng.random()
        if what < 0.4:
            self._tell(f"the connections of {leader.host.name} break, which is to write a marker")
            self.world.network.reset(leader.host.name)
        elif what < 0.6:
            seconds = self.rng.uniform(1.0, 6.0)
            self._tell(f"{leader.host.name}, which is to write a marker, is cut off for {seconds:.1f} s")
            self._isolate(leader, seconds)
        elif what < 0.8 and _runs(coordinator):
            self._tell(f"{coordinator.host.name} dies before its markers are written")
            self._kill(coordinator)
        else:
            self._tell(f"{leader.host.name} dies before it writes a marker")
            self._kill(leader)
        return True

    def _coordinator(self, has: Callable[[Ending], bool]) -> SimNode | None:
        """The node that coordinates such an end."""
        for node in self.world.nodes.values():
            part = None if node.apart or node.process is None else node.process.part
            for owned in () if part is None else part.transactions.log.all_owned():
                if any(held.ending is not None and has(held.ending) for held in owned.ids.values()):
                    return node
        return None

    # ---- a leader has appended the marker ----------------------------------------------------------------

    def _appended(self, producer_id: ProducerId, where: TopicPartition, leader: SimNode) -> bool:
        partition = None if leader.broker is None else leader.broker.partition(*where)
        if partition is None or not partition.is_leader or partition.offline:
            return False
        state = partition.log.producers.get(producer_id)
        if state is None or state.transaction_start >= 0:
            return False
        if partition.high_watermark >= partition.log.log_end_offset:
            return False
        if self.rng.random() < 0.7:
            self._tell(f"{leader.host.name} loses its power, which has just written a marker")
            leader.power_cut("all")
            self.world.start_in(self.rng.uniform(*_DOWN_S), leader)
        else:
            self._tell(f"{leader.host.name} dies, which has just written a marker")
            self._kill(leader)
        return True

    # ---- all markers are written -------------------------------------------------------------------------

    def _complete(self, producer_id: ProducerId, where: TopicPartition, leader: SimNode) -> bool:
        coordinator = self._coordinator(lambda one: one.producer_id == producer_id and one.done)
        others = [n for n in self.world.nodes.values() if n is not coordinator and n.is_broker and _runs(n)]
        if coordinator is None or not others:
            return False
        other = self.rng.choice(others)
        seconds, run_number = self.rng.uniform(1.0, 4.0), other.run_number
        self._tell(f"{other.host.name} stands still for {seconds:.1f} s when an end is complete")
        other.pause()

        def resume() -> None:
            if other.run_number == run_number:
                other.resume()

        self.world.at(seconds, resume)
        return True

    # ---- what befalls machines ---------------------------------------------------------------------------

    def _isolate(self, node: SimNode, seconds: float) -> None:
        name = node.host.name
        pairs = both_ways([name], [other for other in self.world.network.hosts if other != name])
        self.world.network.cut(pairs)
        self.world.at(seconds, lambda: self.world.network.mend(pairs))

    def _kill(self, node: SimNode) -> None:
        node.kill()
        self.world.start_in(self.rng.uniform(*_DOWN_S), node)

    def _tell(self, text: str) -> None:
        self.world.tell("world", f"strike: {text}")


def _runs(node: SimNode) -> bool:
    return node.serves and not node.paused and not node.stopping and not node.apart
