"""What can go wrong, and what an operator may do meanwhile: each kind hurts, waits, and heals.

A kind is a function of the world that draws its victims from the world's randomness, does its harm, undoes it,
and returns in words what it did.  `world.hurt(...)` names the nodes that cannot be asked meanwhile.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.chaos.cluster import Node, UnsettledError, until
from tests.damage.matrix.harm import damage
from tests.damage.matrix.plan import BIT, DELETED, SMALL, SWAPPED, TRUNCATED, ZEROED

from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    ReassignablePartition,
    ReassignableTopic,
)

if TYPE_CHECKING:
    from tests.chaos.story import World

__all__ = ["KINDS", "possible"]


HARMS = (BIT, ZEROED, SWAPPED, TRUNCATED, DELETED)
ROTTEN = (
    "active segment",
    "sealed segment",
    "index",
    "time index",
    "producer snapshot",
    "epoch checkpoint",
    "high-watermark checkpoint",
    "recovery point",
)
"""Files of the brokers; the matrix of damage (`tests.damage.matrix`) has those of the controllers, too."""
SETTLED_S = 60.0


def _back(world: World, node: Node) -> float:
    """Start it again and wait until it answers; the seconds that took."""
    begun = time.monotonic()
    node.start()
    until(lambda: node.ask(world.hello, 5.0), 60, f"{node} answers")
    return time.monotonic() - begun


def _kill(world: World, node: Node, what: str) -> str:
    down = world.rng.uniform(0.1, 3.0)
    with world.hurt(node.number):
        node.kill()
        time.sleep(down)
        took = _back(world, node)
    return f"{node}, {what}, down for {down:.1f} s, back after {took:.1f} s"


def kill_leader(world: World) -> str:
    name, number = world.some_leader()
    return _kill(world, world.nodes[number], f"which leads {name}")


def kill_controller(world: World) -> str:
    return _kill(world, world.nodes[world.cluster.controller()], "the active controller")


def kill_all(world: World) -> str:
    nodes, down = list(world.nodes.values()), world.rng.uniform(0.1, 2.0)
    with world.hurt(*world.nodes):
        for node in nodes:
            node.kill()
        time.sleep(down)
        begun = time.monotonic()
        for node in nodes:
            node.start()
        for node in nodes:
            until(lambda: node.ask(world.hello, 5.0), 60, f"{node} answers")  # noqa: B023 - asked at once
    return (
        f"all {len(nodes)} nodes at once, down for {down:.1f} s, back after {time.monotonic() - begun:.1f} s"
    )


def pause(world: World) -> str:
    node, seconds = world.some_node(), world.rng.choice((0.3, 0.3, 1.0, 3.0, 6.0))
    with world.hurt(node.number):
        node.signal(signal.SIGSTOP)
        time.sleep(seconds)
        node.signal(signal.SIGCONT)
    return f"{node} for {seconds:.1f} s"


def slow_disk(world: World) -> str:
    node, seconds = world.some_node(), world.rng.choice((0.5, 2.0, 5.0))
    with world.hurt(node.number):
        node.stall(seconds)
        time.sleep(seconds)
    return f"{node}: no sync comes back for {seconds:.1f} s"


def full_disk(world: World) -> str:
    assert world.cluster.small_disk is not None
    node, seconds = world.nodes[world.cluster.small_disk], world.rng.uniform(1.0, 4.0)
    with world.hurt(node.number):
        node.fill()
        time.sleep(seconds)
        node.unfill()
        ended = "" if node.alive else ", which ended it"
        if not node.alive:
            _back(world, node)
    return f"{node} for {seconds:.1f} s{ended}"


def cut_link(world: World) -> str:
    node, seconds = world.some_node(), _cut_time(world)
    others = [0, *(n for n in world.nodes if n != node.number)]
    with world.hurt(node.number):
        world.ground.lose(node.number, others)
        for other in others:
            world.ground.lose(other, [node.number])
        time.sleep(seconds)
        world.ground.heal()
    return f"{node} from everybody for {seconds:.1f} s"


def one_way_link(world: World) -> str:
    sender, receiver = world.rng.sample(sorted(world.nodes), 2)
    seconds = _cut_time(world)
    with world.hurt(sender, receiver):
        world.ground.lose(sender, [receiver])
        time.sleep(seconds)
        world.ground.heal()
    return f"what node {sender} sends to node {receiver} is lost for {seconds:.1f} s"


def _cut_time(world: World) -> float:
    """Mostly shorter than a broker's session (9 s), now and then longer."""
    return 11.0 if world.rng.random() < 0.15 else world.rng.uniform(0.5, 4.0)


def clean_restart(world: World) -> str:
    return _restart(world, world.some_node())


def _restart(world: World, node: Node) -> str:
    with world.hurt(node.number):
        stopped = node.stop()
        back = _back(world, node)
    return f"{node}, stopped in {stopped:.1f} s, back after {back:.1f} s"


def rolling_restart(world: World) -> str:
    begun = time.monotonic()
    for node in world.nodes.values():
        _restart(world, node)
        world.settle(30.0)
    return f"all {len(world.nodes)} nodes, one after the other, in {time.monotonic() - begun:.0f} s"


def rot(world: World) -> str:
    """Damage one file of a node that is stopped, killed, or killed with all the others."""
    _all_in_sync(world)
    node = world.some_node()
    ended = [node] if world.rng.random() < 0.7 else list(world.nodes.values())
    with world.hurt(*(one.number for one in ended)):
        if len(ended) == 1 and world.rng.random() < 0.5:
            node.stop()
            how = "stopped"
        else:
            for one in ended:
                one.kill()
            how = "killed" if len(ended) == 1 else "killed with all others"
        what = _damaged(world, node)
        for one in ended:
            one.start()
        for one in ended:
            until(lambda: one.ask(world.hello, 5.0), 60, f"{one} answers")  # noqa: B023 - asked at once
    _all_in_sync(world)
    return f"{what} of {node}, {how}"


def rot_running(world: World) -> str:
    """Damage one file of a node that runs, and start it again: that is when most files are read."""
    _all_in_sync(world)
    node = world.some_node()
    what = _damaged(world, node)
    time.sleep(world.rng.uniform(0.5, 3.0))
    said = _restart(world, node)
    _all_in_sync(world)
    return f"{what}; {said}"


def _all_in_sync(world: World) -> None:
    """Wait until other replicas have all that this one has: more than one damaged copy is more than we promise."""
    if not world.settle(SETTLED_S):
        raise UnsettledError(f"not all in sync within {SETTLED_S:.0f} s before or after a file was damaged")


def _damaged(world: World, node: Node) -> str:
    """Damage one of the node's files; in words."""
    root = node.data / "log"
    for _ in range(20):
        partition = world.rng.choice(world.cluster.ours(node))
        file, harm = world.rng.choice(ROTTEN), world.rng.choice(HARMS)
        blocks = harm in (ZEROED, SWAPPED)
        if not (blocks and file in SMALL) and (
            done := damage(root, root, file, harm, world.rng, events=partition)
        ):
            return f"{harm}: {done.path} ({done.size} bytes)"
    return "nothing to damage"


def change_voters(world: World) -> str:
    cluster = world.cluster
    voters = cluster.voters()
    leaving = world.rng.choice(voters)
    strangers = [number for number in world.nodes if number not in voters]
    joining = world.rng.choice(strangers) if strangers else leaving
    if joining == leaving:
        cluster.remove_voter(leaving)
        cluster.add_voter(joining)
    else:
        cluster.add_voter(joining)
        cluster.remove_voter(leaving)
    return f"node {leaving} leaves, node {joining} joins: voters {', '.join(map(str, cluster.voters()))}"


def reassign(world: World) -> str:
    name, partition = world.rng.choice(world.cluster.partitions([world.topic]))
    replicas = world.rng.sample(sorted(world.nodes), 3)
    answer = world.cluster.ask_again(
        AlterPartitionReassignmentsRequest(
            timeout_ms=10_000,
            topics=[
                ReassignableTopic(
                    name=name,
                    partitions=[
                        ReassignablePartition(partition_index=partition.partition_index, replicas=replicas)
                    ],
                )
            ],
        ),
        "a reassignment",
    )
    said = answer.responses[0].partitions[0].error_code if answer.responses else 0
    words = f"{name}-{partition.partition_index} from {sorted(partition.replica_nodes)} to {replicas}"
    return words + (f" (refused: {said})" if said or answer.error_code else "")


def elect(world: World) -> str:
    request = ElectLeadersRequest(election_type=0, topic_partitions=None, timeout_ms=10_000)
    world.cluster.ask_again(request, "an election")
    return "the first replicas lead again"


KINDS: dict[str, Callable[[World], str]] = {
    "kill -9 leader": kill_leader,
    "kill -9 controller": kill_controller,
    "pause (SIGSTOP)": pause,
    "slow disk": slow_disk,
    "full disk": full_disk,
    "cut link": cut_link,
    "one-way link": one_way_link,
    "restart": clean_restart,
    "rot": rot,
    "rot while it runs": rot_running,
    "voters": change_voters,
    "reassign": reassign,
    "kill -9 all": kill_all,
    "rolling restart": rolling_restart,
    "preferred leaders": elect,
}
RARE = ("kill -9 all", "rolling restart", "preferred leaders")


def possible(world: World) -> list[str]:
    """The kinds that can be had here, those first of which there are many."""
    without = set() if world.ground.has_links else {"cut link", "one-way link"}
    if world.cluster.small_disk is None:
        without.add("full disk")
    return [kind for kind in KINDS if kind not in without]
