"""The membership operations an operator may think of; each a small function with a name and a weight.

Each returns whether it found something to do.  They look at the quorum as an operator would, through its
leader, and may be wrong about it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from barnabas.errors import ErrorCode
from barnabas.model import Endpoint, ReplicaKey, Uuid
from barnabas.raft.messages import (
    AddVoterRequest,
    CancelChangeRequest,
    RemoveVoterRequest,
    Resign,
    Shutdown,
    TransferRequest,
    UpgradeRequest,
)
from barnabas.raft.voters import VersionRange
from barnabas.sim.quorum.budget import may_lose, may_move
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.workload import Operator, reassign
from barnabas.sim.quorum.world import World

__all__ = ["OPERATIONS", "Kind", "Scene"]


class Scene(NamedTuple):
    """Who acts, where, by which generator; `size` is how many voters the operators want just now."""

    world: World
    operator: Operator
    rng: random.Random
    size: int

    @property
    def leader(self) -> Machine | None:
        return self.world.leader

    @property
    def voter_ids(self) -> tuple[int, ...]:
        leader = self.leader
        return () if leader is None or leader.process is None else leader.process.node.voters.ids

    @property
    def timeout(self) -> float:
        return self.rng.choice((1.0, 3.0, 8.0))

    @property
    def quiet(self) -> bool:
        """Nobody changes the voters, as far as the whole world knows."""
        return not self.world.change_pending()


class Kind(NamedTuple):
    """One kind of operation."""

    name: str
    weight: float
    begin: Callable[[Scene], bool]


def add(scene: Scene) -> bool:
    """Add a controller that is not a voter."""
    others = [n for n in scene.world.nodes.values() if n.id not in scene.voter_ids]
    if not scene.voter_ids or not others:
        return False
    node = scene.rng.choice([n for n in others if n.up] or others)
    _add(scene, node)
    return True


def _add(scene: Scene, node: Machine, then: Callable[[ErrorCode | None], None] | None = None) -> None:
    wait = scene.rng.random() < 0.7
    request = AddVoterRequest(node.key, node.endpoints, scene.timeout, wait, scene.world.setup.cluster_id)
    scene.operator.ask("add", request, then)


def remove(scene: Scene) -> bool:
    """Remove any voter."""
    leader = scene.leader
    if leader is None or leader.process is None or not len(leader.process.node.voters):
        return False
    voter = scene.rng.choice(leader.process.node.voters.keys)
    name = "remove leader" if voter == leader.key else "remove"
    scene.operator.ask(name, RemoveVoterRequest(voter, scene.world.setup.cluster_id))
    return True


def remove_leader(scene: Scene) -> bool:
    """Remove the leader."""
    leader = scene.leader
    if leader is None:
        return False
    scene.operator.ask("remove leader", RemoveVoterRequest(leader.key, scene.world.setup.cluster_id))
    return True


def resize(scene: Scene) -> bool:
    """One step towards as many voters as are wanted (1-3-5-3 ...)."""
    return add(scene) if len(scene.voter_ids) < scene.size else remove(scene)


def add_at_wrong_address(scene: Scene) -> bool:
    """Offer a voter at an address where nobody, or somebody else, listens."""
    others = [n for n in scene.world.nodes.values() if n.id not in scene.voter_ids]
    if not others or not scene.voter_ids:
        return False
    node = scene.rng.choice(others)
    elsewhere = scene.rng.choice(list(scene.world.nodes.values()))
    wrong = Endpoint("CONTROLLER", "nowhere", 1) if elsewhere is node else elsewhere.endpoints[0]
    request = AddVoterRequest(node.key, (wrong,), 2.0, True, scene.world.setup.cluster_id)
    scene.operator.ask("add at a wrong address", request)
    return True


def add_unknown_disk(scene: Scene) -> bool:
    """Offer a replica with a directory id that the node does not have."""
    others = [n for n in scene.world.nodes.values() if n.id not in scene.voter_ids]
    if not others or not scene.voter_ids:
        return False
    node = scene.rng.choice(others)
    key = ReplicaKey(node.id, Uuid.of(99, node.id))
    request = AddVoterRequest(key, node.endpoints, 2.0, True, scene.world.setup.cluster_id)
    scene.operator.ask("add with a wrong directory id", request)
    return True


def cancel(scene: Scene) -> bool:
    """Withdraw a change that waits."""
    waiting = [one for one in scene.operator.pending if one.target is not None]
    if not waiting:
        return False
    target = scene.rng.choice(waiting).target
    assert target is not None
    scene.operator.ask("cancel a change", CancelChangeRequest(target))
    return True


def set_target(scene: Scene) -> bool:
    """Name the final set, instead of single changes; a second one replaces the first."""
    up = [n.id for n in scene.world.nodes.values() if n.up and not n.rotten]
    if not scene.voter_ids or len(up) < 2:
        return False
    count = min(len(up), scene.rng.choice((1, 2, 3, 3, 4)))
    target = tuple(sorted(scene.rng.sample(up, count)))
    leader = scene.leader
    assert leader is not None and leader.process is not None
    running = leader.process.node.describe(leader.clock.now()).target is not None
    scene.operator.ask("retarget" if running else "set target", reassign(scene.world, target))
    return True


def cancel_target(scene: Scene) -> bool:
    """Stop on the way to a target."""
    leader = scene.leader
    if leader is None or leader.process is None:
        return False
    if leader.process.node.describe(leader.clock.now()).target is None:
        return False
    scene.operator.ask("cancel target", reassign(scene.world, None))
    return True


def replace_disk(scene: Scene) -> bool:
    """A voter's disk dies: an empty one under the same id, the old replica removed, the new one added."""
    world = scene.world
    if any(node.apart for node in world.nodes.values()):
        return False
    nodes = [n for n in world.nodes.values() if n.id in scene.voter_ids]
    hold = world.time + 2 * world.setup.fetch_timeout + 1.0
    scene.rng.shuffle(nodes)
    for node in nodes:
        if not may_lose(world, node, quiet=scene.quiet):
            continue
        old = node.key
        if node.process is not None:
            node.off("all", "its disk dies")
        node.new_disk()
        world.format(node, first=False)
        world.hold_until = hold
        _exchange(scene, node, old)
        scene.operator.done["replace disk"] += 1
        return True
    return False


def _exchange(scene: Scene, node: Machine, old: ReplicaKey) -> None:
    new = node.key

    def removed(outcome: ErrorCode | None) -> None:
        if node.key == new and outcome in (ErrorCode.NONE, ErrorCode.VOTER_NOT_FOUND):
            _add(scene, node)

    def begin() -> None:
        request = RemoveVoterRequest(old, scene.world.setup.cluster_id)
        scene.operator.ask("remove the old disk", request, removed)

    scene.world.at(scene.rng.uniform(0.0, 4.0), begin)


def change_address(scene: Scene) -> bool:
    """A node moves: it stops, and comes back at another address, which it reports by itself."""
    up = [n for n in scene.world.nodes.values() if n.up]
    return bool(up) and _move(scene, scene.rng.choice(up))


def change_all_addresses(scene: Scene) -> bool:
    """Every node moves, one after the other."""
    nodes = list(scene.world.nodes.values())
    for number, node in enumerate(nodes):
        scene.world.at(number * 1.5, partial(_move_later, scene, node))
    return True


def _move_later(scene: Scene, node: Machine) -> None:
    _move(scene, node)


def _move(scene: Scene, node: Machine) -> bool:
    world = scene.world
    if world.calm or node.process is None or not may_move(world, node) or _being_added(scene, node):
        return False
    node.off("none", "it moves", reset=True)
    world.move(node)
    return True


def _being_added(scene: Scene, node: Machine) -> bool:
    """Whether it may become a voter at its old address any moment."""
    return node.id not in scene.voter_ids and (not scene.quiet or scene.world.setup.auto_join)


def swap_addresses(scene: Scene) -> bool:
    """Two nodes come back at each other's address."""
    up = [n for n in scene.world.nodes.values() if n.up]
    if len(up) < 3:
        return False
    one, two = scene.rng.sample(up, 2)
    if not may_move(scene.world, one, two) or _being_added(scene, one) or _being_added(scene, two):
        return False
    for node in (one, two):
        node.off("none", "it moves", reset=True)
    one.endpoints, two.endpoints = two.endpoints, one.endpoints
    world = scene.world
    world.network.addresses.update({one.address: one.id, two.address: two.id})
    for node in (one, two):
        world.places.add((node.id, *node.address))
        world.tell(node.id, f"listens at {node.endpoints[0]}")
    return True


def upgrade(scene: Scene) -> bool:
    """From static voters to voters that change."""
    leader = scene.leader
    if leader is None or leader.process is None or leader.process.node.kraft_version > 0:
        return False
    scene.operator.ask("upgrade", UpgradeRequest(1))
    return True


def change_versions(scene: Scene) -> bool:
    """A node is restarted with software that supports another range of kraft.version."""
    up = [n for n in scene.world.nodes.values() if n.up]
    if not up:
        return False
    node = scene.rng.choice(up)
    assert node.process is not None
    node.versions = VersionRange(0, 1) if node.versions.min else VersionRange(1, 1)
    if any(n.process is not None and n.process.node.kraft_version == 0 for n in up):
        node.versions = VersionRange(0, 1)
    node.off("none", "another version is installed", reset=True)
    return True


def resign(scene: Scene) -> bool:
    """The active controller steps down."""
    leader = scene.leader
    if leader is None or leader.process is None or leader.paused:
        return False
    leader.process.receive(Resign(leader.process.node.epoch))
    return True


def transfer(scene: Scene) -> bool:
    """Hand the lead to somebody: a voter mostly, a node that is none, or nobody in particular."""
    nodes = list(scene.world.nodes)
    if scene.leader is None or not nodes:
        return False
    to = scene.rng.choice([None, *scene.voter_ids, *scene.voter_ids, scene.rng.choice(nodes)])
    force = scene.rng.random() < 0.3
    scene.operator.ask(
        "transfer the lead", TransferRequest(to, scene.timeout, scene.world.setup.cluster_id, force)
    )
    return True


def stop_cleanly(scene: Scene) -> bool:
    """A node is stopped as an operator stops it."""
    up = [n for n in scene.world.nodes.values() if n.process is not None and not n.paused]
    if not up:
        return False
    node = scene.rng.choice(up)
    assert node.process is not None
    node.process.receive(Shutdown(2.0))
    return True


OPERATIONS: tuple[Kind, ...] = (
    Kind("add", 4, add),
    Kind("remove", 2, remove),
    Kind("remove leader", 1.5, remove_leader),
    Kind("resize", 8, resize),
    Kind("add at a wrong address", 0.5, add_at_wrong_address),
    Kind("add with a wrong directory id", 0.3, add_unknown_disk),
    Kind("cancel a change", 1, cancel),
    Kind("set target", 1.2, set_target),
    Kind("cancel target", 1, cancel_target),
    Kind("replace disk", 1, replace_disk),
    Kind("change address", 0.7, change_address),
    Kind("change all addresses", 0.15, change_all_addresses),
    Kind("swap addresses", 0.2, swap_addresses),
    Kind("upgrade", 3, upgrade),
    Kind("change versions", 0.4, change_versions),
    Kind("resign", 0.7, resign),
    Kind("transfer the lead", 1, transfer),
    Kind("stop in order", 0.7, stop_cleanly),
)
