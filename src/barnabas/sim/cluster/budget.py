"""How much may fail: at least one whole copy of everything committed stays.

A crash loses nothing that was synced, so any number of nodes may crash at any time.  A lost disk loses its
copies.  It may be lost while every partition has another replica in sync that still has the disk with which
it was in sync, and while no broker that lost a disk before is still catching up.

No disk is lost while a second quorum exists, nor the other way round: a node that knows no quorum yet follows
the one that it finds first, and only an operator can say which one is right (docs/decisions/0024).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barnabas.sim.cluster.node import SimNode
    from barnabas.sim.cluster.world import World

__all__ = ["may_lose", "whole_again"]


def may_lose(world: World, node: SimNode) -> bool:
    """Whether the disk of this broker may be lost now.  (Controllers keep theirs: see `sim.quorum.budget`.)"""
    image = world.image
    if node.is_controller or world.emptied or image is None or node.paused or node.stopping:
        return False
    if any(other.apart for other in world.nodes.values()):
        return False  # a second quorum lives, and an empty disk could not tell the two apart
    active = world.active_controller
    if active is None or active.quorum is None or active.quorum.image is not image:
        return False  # nobody knows who is in sync
    for topic in image.topics.values():
        for state in topic.partitions.values():
            if node.id in state.replicas and len(set(state.isr) - {node.id}) < 2:
                return False
    return True


def whole_again(world: World) -> None:
    """Forget that a broker lost its disk, once it is in sync everywhere with the new one."""
    image = world.image
    for node_id in list(world.emptied) if image is not None else ():
        node = world.nodes[node_id]
        part = None if node.process is None else node.process.part
        broker = image.brokers.get(node_id) if image is not None else None
        if part is None or broker is None or broker.epoch != part.lifecycle.epoch or broker.fenced:
            continue
        states = [s for topic in image.topics.values() for s in topic.partitions.values()] if image else []
        if all(node_id in state.isr for state in states if node_id in state.replicas):
            del world.emptied[node_id]
