"""How much may fail: at least one good copy of everything acknowledged stays, and a majority to find it.

A fault that destroys a disk asks here first.  It may happen if every voter set that is in force anywhere (in
any log, of a running node or one that is down) keeps a majority of whole disks without it, also if two more
of its members were removed before anybody noticed, or as many as requests on their way name; or, with no change
in progress and no such request, exactly a majority.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from barnabas.model import ZERO_UUID, ReplicaKey
from barnabas.raft.voters import VoterSet
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.world import World

__all__ = ["found", "may_lose", "may_move", "sets_in_force", "whole"]


def sets_in_force(world: World) -> Iterator[VoterSet]:
    """Every voter set that a node may go by, now or after a restart."""
    if world.committed_log.sets:
        yield world.committed_log.sets[-1][1]
    for node in world.nodes.values():
        process = node.last
        if not node.apart and process is not None and process.owner.key == process.node.core.key:
            high_watermark = process.node.high_watermark or 0
            items = process.log_view.voter_sets.items()
            newest = len(items) - 1
            for number, (offset, voters) in enumerate(items):
                if number == newest or offset >= high_watermark:
                    yield voters
                elif items[number + 1][0] >= high_watermark:
                    yield voters  # in force again, should what follows be cut
            if not items:
                yield process.log_view.voters


def whole(world: World, key: ReplicaKey) -> bool:
    """Whether this replica's disk is there and says the truth."""
    node = world.nodes.get(key.id)
    if node is None or node.rotten or node.apart:
        return False
    return key.directory_id in (ZERO_UUID, node.key.directory_id)


def may_move(world: World, *moving: Machine) -> bool:
    """Whether these nodes may change their addresses now.

    A voter that moved is found again once it has told the leader.  Until then the others must be able to
    elect one without it: a majority of every set stands at the address that the set says.
    """
    stay = [node for node in world.nodes.values() if node not in moving]
    return all(
        len(voters) == 1 or found(world, voters, stay) >= voters.majority for voters in sets_in_force(world)
    )


def found(world: World, voters: VoterSet, among: Collection[Machine]) -> int:
    """How many of these voters have their disk and stand where the set says, among these nodes."""
    count = 0
    for voter in voters:
        node = world.nodes.get(voter.key.id)
        if node is not None and node in among and whole(world, voter.key):
            count += len(voters) == 1 or node.address == voter.endpoints[0][1:]
    return count


def may_lose(world: World, node: Machine, *, quiet: bool) -> bool:
    """Return whether the disk of `node` may be destroyed now.  `quiet`: no change of the voters is under way.

    While one is, a node outside every set may be on its way in: its leader believes for a fetch timeout that it
    lives, and appends a set that needs it.
    """
    sets = list(sets_in_force(world))
    if not quiet and not any(voters.has(node.key) for voters in sets):
        return False
    for voters in sets:
        if not voters.has(node.key):
            continue
        if any(key.directory_id == ZERO_UUID for key in voters.keys):
            return False  # without directory ids nobody could tell the new replica from the old one
        left = found(world, voters, [other for other in world.nodes.values() if other is not node])
        leaving = sum(world.removals[key] > 0 for key in voters.keys if key != node.key and whole(world, key))
        if quiet and not leaving and left >= voters.majority:
            continue
        fewer = max(2, leaving)
        if left - fewer < (len(voters) - fewer) // 2 + 1:
            return False
    return True
