"""All invariants, one small class each, named as in the property table (Q: quorum, M: membership, S: storage,
D: determinism, L: liveness).

They look at the world from outside: at the files, at the messages, at the decisions.  They read what they
need of a node from its log and its disk, never from the variable that the protocol itself decides by.  A
violation raises `InvariantViolation` with the invariant's name.
"""

from __future__ import annotations

from barnabas.model import Offset, ReplicaKey
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.sim.quorum.invariants.answers import AnsweredInTime, HonestAnswers, WrittenBeforeSent
from barnabas.sim.quorum.invariants.applied import APPLIED
from barnabas.sim.quorum.invariants.autopilot import AutopilotKeepsItsWord
from barnabas.sim.quorum.invariants.elections import (
    NewDiskNewReplica,
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    OnlyVotersCount,
)
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.invariants.membership import (
    OneChangeAtATime,
    OneKeyDiffers,
    RemovalIsTold,
    VotersFromTheLog,
    WrongAddressStaysOut,
)
from barnabas.sim.quorum.invariants.replication import (
    HighWatermarkIsHeld,
    LeaderHasAll,
    LogsAgree,
    NothingCommittedIsCut,
    RecoveredPrefix,
)
from barnabas.sim.quorum.invariants.second_quorum import NobodyElse
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.observer import listen
from barnabas.sim.quorum.world import World

__all__ = ["ALL", "Invariants", "Onlookers", "watch"]


class Onlookers(Invariant):
    """Not an invariant: faults that wait for their moment (`targeted_faults`) are told what happens."""

    def led(self, node: Machine) -> None:
        for one in list(self.world.onlookers):
            one.led(node)

    def appended(self, node: Machine, batch: Batch) -> None:
        for one in list(self.world.onlookers):
            one.appended(node, batch)

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        for one in list(self.world.onlookers):
            one.installing(node, snapshot)

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Machine) -> None:
        for one in list(self.world.onlookers):
            one.voted(node, candidate)

    def truncating(self, node: Machine, end_offset: Offset) -> None:
        for one in list(self.world.onlookers):
            one.truncating(node, end_offset)


ALL: tuple[type[Invariant], ...] = (
    OneLeaderPerEpoch,
    OneVotePerEpoch,
    HighWatermarkIsHeld,
    LogsAgree,
    LeaderHasAll,
    NothingCommittedIsCut,
    OneChangeAtATime,
    OneKeyDiffers,
    VotersFromTheLog,
    RemovalIsTold,
    OnlyVotersCount,
    NewDiskNewReplica,
    HonestAnswers,
    RecoveredPrefix,
    WrittenBeforeSent,
    WrongAddressStaysOut,
    AnsweredInTime,
    AutopilotKeepsItsWord,
    *APPLIED,
    Onlookers,
)


class Invariants(Invariant):
    """All of them: each hook calls those who override it."""

    def __init__(self, world: World, kinds: tuple[type[Invariant], ...] = ALL) -> None:
        super().__init__(world)
        self.all = [kind(world) for kind in kinds]
        listen(self, self.all)

    def forget(self, *names: str) -> None:
        """These do not have to hold any more."""
        self.all = [one for one in self.all if one.name not in names]
        listen(self, self.all)


def watch(world: World) -> None:
    """Check every invariant in this world from now on."""
    world.invariants = Invariants(world)
    world.invariants_apart = NobodyElse(world)
