"""The invariants, one small class each, named as in the property table (Q: quorum, M: membership, S: storage,
D: determinism, L: liveness).

They look at the world from outside: at the files, at the messages, at the decisions.  They read what they
need of a node from its log and its disk, never from the variable that the protocol itself decides by.  A
violation raises `Broken` with the invariant's name.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING

from barnabas.controller.image import RESOURCE_BROKER
from barnabas.model import ZERO_UUID, Epoch, NodeId, Offset, ReplicaKey
from barnabas.raft.entries import Batch, ElectionState, SnapshotId, VotersEntry
from barnabas.raft.messages import Request, VoteRequest
from barnabas.raft.roles import Leader
from barnabas.raft.voters import VoterSet
from barnabas.sim.quorum.invariants.answers import AnsweredInTime, HonestAnswers, WrittenBeforeSent
from barnabas.sim.quorum.invariants.applied import APPLIED
from barnabas.sim.quorum.invariants.committed_log import FEATURES, METADATA, SETTINGS_OF, text_of
from barnabas.sim.quorum.invariants.durable_view import platter_holds, saved_election
from barnabas.sim.quorum.invariants.invariant import Broken, Invariant, listen
from barnabas.wire.records import batches

if TYPE_CHECKING:
    from barnabas.sim.quorum.node import Node
    from barnabas.sim.quorum.world import World

__all__ = ["ALL", "Broken", "Invariant", "Promises"]


class OneLeaderPerEpoch(Invariant):
    """Q1: at most one leader per epoch, over all nodes and all their lives.

    A sole voter leads for a moment before its epoch is on the platter, when nothing has left it yet; should
    it die then, nobody ever heard of that leader.
    """

    name = "Q1"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.leaders: dict[int, ReplicaKey] = {}

    def led(self, node: Node) -> None:
        self.synced(node)

    def synced(self, node: Node) -> None:
        assert node.process is not None
        epoch = node.process.node.epoch
        if not node.process.node.is_leader or self.leaders.get(epoch) == node.key:
            return
        durable = saved_election(node.disk, METADATA)
        if durable is None or durable.epoch < epoch:
            return
        first = self.leaders.setdefault(epoch, node.key)
        if first != node.key:
            self.fail(f"epoch {epoch} is led by {first} and by {node.key}")


class OneVotePerEpoch(Invariant):
    """Q2: the persisted epoch never falls; one vote per (epoch, replica), on the platter before it is given."""

    name = "Q2"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}

    def sending(self, node: Node, request: Request) -> None:
        """A candidate has voted for itself."""
        if isinstance(request, VoteRequest) and not request.pre_vote:
            self.voted(node.key, request.epoch, request.candidate, node)

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Node) -> None:
        first = self.votes.setdefault((voter, epoch), candidate)
        if not _same(first, candidate):
            self.fail(f"{voter} gives its vote of epoch {epoch} to {first} and to {candidate}")
        durable = saved_election(node.disk, METADATA)
        if durable is None or durable.epoch < epoch:
            self.fail(f"{voter} gives a vote of epoch {epoch}, but its disk says {durable}")
        elif durable.epoch == epoch and (durable.voted is None or not _same(durable.voted, candidate)):
            self.fail(f"{voter} votes for {candidate} in epoch {epoch}, but its disk says {durable}")

    def synced(self, node: Node) -> None:
        durable = saved_election(node.disk, METADATA)
        if durable is None or durable == node.confirmed_vote:
            return
        if durable.epoch < node.confirmed_vote.epoch:
            self.fail(f"{node.key} went back from {node.confirmed_vote} to {durable}")
        if durable.voted is not None:
            first = self.votes.setdefault((node.key, durable.epoch), durable.voted)
            if not _same(first, durable.voted):
                self.fail(f"{node.key} voted for {first}, and now {durable}")
        node.confirmed_vote = durable

    def started(self, node: Node) -> None:
        saved = saved_election(node.disk, METADATA) or ElectionState()
        if saved.epoch < node.confirmed_vote.epoch:
            self.fail(f"{node.key} remembers {saved}, it had promised {node.confirmed_vote}")


def _same(one: ReplicaKey, other: ReplicaKey) -> bool:
    """The same replica; at kraft.version 0 a vote does not say which disk."""
    return one.id == other.id and (
        one.directory_id == other.directory_id or ZERO_UUID in (one.directory_id, other.directory_id)
    )


class HighWatermarkIsHeld(Invariant):
    """Q3: what a leader publishes never falls, and is on the platters of a majority of its latest voter set."""

    name = "Q3"

    def moved(self, node: Node, high_watermark: Offset, leads: bool) -> None:
        process = node.process
        assert process is not None
        if high_watermark < process.published:
            self.fail(f"the high watermark of {node.key} fell from {process.published} to {high_watermark}")
        process.published = high_watermark
        if leads:
            log_view = process.log_view
            voters, epoch = process.voters_told, log_view.epoch_at(high_watermark - 1)
            holders = [voter.key for voter in voters if self._holds(voter.key, high_watermark, epoch)]
            if len(holders) < voters.majority:
                held = ", ".join(str(key) for key in holders) or "nobody"
                self.fail(f"{node.key} says {high_watermark}; of {voters} it is on the platter of {held}")

    def _holds(self, key: ReplicaKey, end: Offset, epoch: Epoch) -> bool:
        node = self.world.nodes.get(key.id)
        if node is not None and key.directory_id in (node.key.directory_id, ZERO_UUID):
            return platter_holds(node.disk, METADATA, end, epoch)
        grave = self.world.graves.get(key)
        return grave is not None and platter_holds(grave, METADATA, end, epoch)


class LogsAgree(Invariant):
    """Q4: what is committed is the same (offset, epoch, content) on all nodes and for good."""

    name = "Q4"

    def committed(self, node: Node, batch: Batch) -> None:
        assert node.process is not None
        wrong = self.world.truth.commit(batch, node.process.node.core.epoch)
        if wrong:
            self.fail(f"node {node.id}: {wrong}")

    def started(self, node: Node) -> None:
        """What stands in the log before the end of the newest snapshot is what that snapshot came from."""
        process, decided = node.process, self.world.truth.batches
        assert process is not None
        log_view = process.log_view
        newest = log_view.latest_snapshot
        if node.rotten or newest is None:
            return
        for base, (epoch, end, _, _) in decided.items():
            if log_view.log_start <= base and end <= min(newest.end_offset, log_view.end_offset):
                if log_view.epoch_at(base) != epoch:
                    mine = log_view.epoch_at(base)
                    self.fail(f"{node.key} has epoch {mine} at {base}, below {newest}; decided is {epoch}")

    def finished(self) -> None:
        """Byte by byte, between each two nodes whose logs overlap below both high watermarks."""
        seen: dict[Offset, tuple[bytes, NodeId]] = {}
        for node in self.world.nodes.values():
            if node.process is None or node.apart:
                continue
            log = node.process.store.log
            end = node.process.node.high_watermark or 0
            offset = max(log.log_start_offset, node.process.log_view.log_start)
            while offset < end:
                data = log.read(offset, 1 << 20, end).read()
                for base, last, part in _split(data):
                    first = seen.setdefault(base, (part, node.id))
                    if first[0] != part:
                        self.fail(f"the bytes at offset {base} differ on nodes {first[1]} and {node.id}")
                    offset = last + 1


def _split(data: bytes) -> list[tuple[Offset, Offset, bytes]]:
    return [(h.base_offset, h.last_offset, data[at : at + h.size]) for at, h in batches(data)]


_WRITE = re.compile(r"s\d+/\d+")


class LeaderHasAll(Invariant):
    """Q5: a new leader holds everything that was ever committed, and so does a majority, for good."""

    name = "Q5"

    def led(self, node: Node) -> None:
        process, truth = node.process, self.world.truth
        assert process is not None
        if process.node.epoch < max(self.world.epochs_led, default=0):
            return
        self.world.epochs_led.add(process.node.epoch)
        end = process.log_view.end_offset
        if end < truth.end:
            self.fail(f"{node.key} leads with a log up to {end}; committed is {truth.end}")
        for batch, _, _ in process.store.waiting:
            known = truth.batches.get(batch.base_offset)
            if known is not None and (known.epoch != batch.epoch or known.text != text_of(batch)):
                self.fail(f"{node.key} leads with {batch}, decided is {known}")

    def acknowledged(self, node: Node, write: str, offset: Offset) -> None:
        truth = self.world.truth
        known = truth.batches.get(offset)
        if known is None or (write != FEATURES and write not in known.text):
            self.fail(f"{write} is acknowledged at {offset}, where {known} stands")
        truth.acknowledged[write] = offset

    def finished(self) -> None:
        truth = self.world.truth
        leader = self.world.leader
        assert leader is not None and leader.process is not None
        image = leader.process.replay.image
        last: dict[str, str] = {}
        for base, decided in truth.batches.items():
            if base <= image.offset:
                last.update((w.partition("/")[0], w) for w in decided.text.split() if _WRITE.fullmatch(w))
        shown = image.configs.get((RESOURCE_BROKER, SETTINGS_OF), {})
        for name, write in last.items():
            if shown.get(name) != write:
                self.fail(f"the leader's image says {name}={shown.get(name)}, decided is {write}")


class NothingCommittedIsCut(Invariant):
    """Q6: no truncation below what is committed; snapshots end at most at the high watermark.

    The leader of an older epoch may have a replica cut a record that a later leader commits meanwhile: that
    replica's copy was not counted, since who counts for a leader is in its epoch (seed 21663).
    """

    name = "Q6"

    def truncating(self, node: Node, end_offset: Offset) -> None:
        process, truth = node.process, self.world.truth
        assert process is not None
        if node.rotten:
            return
        epoch = process.node.core.epoch
        for batch, _, _ in process.store.waiting:
            if batch.end_offset > end_offset:
                known = truth.batches.get(batch.base_offset)
                if known is not None and known.epoch == batch.epoch and known.leader_epoch <= epoch:
                    self.fail(f"{node.key} cuts to {end_offset} and loses {batch}, which is committed")
        if end_offset <= process.replay.image.offset:
            self.fail(f"{node.key} cuts to {end_offset} below what it applied")

    def installing(self, node: Node, snapshot: SnapshotId) -> None:
        process, truth = node.process, self.world.truth
        assert process is not None
        if process.node.is_leader:
            self.fail(f"leader {node.key} loads snapshot {snapshot}")
        if snapshot.end_offset > truth.end:
            self.fail(f"{node.key} loads {snapshot}, only {truth.end} is committed")

    def stepped(self, node: Node) -> None:
        process = node.process
        assert process is not None
        log_view = process.log_view
        start = log_view.log_start
        if start and all(s.end_offset != start for s, _ in log_view.snapshots):
            self.fail(f"{node.key} starts its log at {start}, without a snapshot that ends there")
        if log_view.snapshots and log_view.snapshots[-1][0].end_offset > max(self.world.truth.end, 0):
            self.fail(f"{node.key} holds snapshot {log_view.snapshots[-1][0]}, not all of it committed")


class OneChangeAtATime(Invariant):
    """M1: at most one change of the key set is uncommitted, and none before the leader's epoch committed."""

    name = "M1"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.open: list[tuple[Batch, int]] = []

    def appended(self, node: Node, batch: Batch) -> None:
        process = node.process
        if process is None or batch.raw is not None or not process.node.is_leader:
            return
        if not any(isinstance(entry, VotersEntry) for entry in batch.entries):
            return
        log_view = process.log_view
        before = log_view.voters_at(batch.base_offset)
        entry = next(entry for entry in batch.entries if isinstance(entry, VotersEntry))
        if not before.keys_changed(entry.voters) or _static(before):
            return
        self.open.append((batch, log_view.cut))

    def stepped(self, node: Node) -> None:
        if self.open:
            opened, self.open = self.open, []
            for batch, cut in opened:
                assert node.process is not None
                if node.process.log_view.cut == cut:
                    self._check(node, batch)

    def _check(self, node: Node, batch: Batch) -> None:
        """After the turn: what it committed before the append is known now."""
        assert node.process is not None
        log_view, truth = node.process.log_view, self.world.truth
        if truth.last_epoch < batch.epoch:
            self.fail(f"{node.key} changes the voters, nothing of epoch {batch.epoch} is committed")
        items = log_view.voter_sets.items()
        for (_, old), (offset, new) in pairwise(items):
            if truth.end <= offset < batch.base_offset and old.keys_changed(new):
                self.fail(f"{node.key} appends {batch} while the change at {offset} is not committed")


def _static(voters: VoterSet) -> bool:
    return any(key.directory_id == ZERO_UUID for key in voters.keys)


class OneKeyDiffers(Invariant):
    """M2: when a leader changes the key set, exactly one (id, directory id) differs; 0 -> 1 compares ids."""

    name = "M2"

    def appended(self, node: Node, batch: Batch) -> None:
        process = node.process
        if process is None:
            return
        for entry in batch.entries:
            if isinstance(entry, VotersEntry):
                before = process.log_view.voters_at(batch.base_offset)
                changed = before.keys_changed(entry.voters)
                if _static(before):
                    if before.ids != entry.voters.ids:
                        self.fail(f"the upgrade makes {entry.voters} of {before}")
                elif len(before) and len(changed) > 1:
                    self.fail(f"{before} becomes {entry.voters}: {[str(key) for key in changed]}")


class VotersFromTheLog(Invariant):
    """M3: the set in force is the last one in log or snapshot; the same history everywhere."""

    name = "M3"

    def stepped(self, node: Node) -> None:
        process = node.process
        assert process is not None
        log_view = process.log_view
        latest = log_view.voter_sets.latest_offset
        if latest is not None and latest >= max(log_view.end_offset, 1):
            self.fail(
                f"{node.key} counts the voters of offset {latest}, its log ends at {log_view.end_offset}"
            )

    def moved(self, node: Node, high_watermark: Offset, leads: bool) -> None:
        self.compare(node, high_watermark)

    def compare(self, node: Node, end: Offset) -> None:
        assert node.process is not None
        end = min(end, self.world.truth.end)
        if end < node.process.log_view.log_start:
            return
        sets = [voters for offset, voters in self.world.truth.sets if offset < end]
        mine = node.process.log_view.voters_at(end)
        if sets and mine.keys != sets[-1].keys:
            self.fail(f"at {end} node {node.id} has the voters {mine}, decided are {sets[-1]}")


class OnlyVotersCount(Invariant):
    """M4: a leader was elected by a majority of its own set, by replicas in it, and nobody else."""

    name = "M4"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.votes: dict[tuple[int, ReplicaKey], set[ReplicaKey]] = {}

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Node) -> None:
        self.votes.setdefault((epoch, candidate), set()).add(voter)

    def led(self, node: Node) -> None:
        process = node.process
        assert process is not None
        epoch, voters = process.node.epoch, _electorate(node)
        given = self.votes.get((epoch, node.key), set()) | {node.key}
        counted = [key for key in sorted(given) if voters.has(key)]
        if len(counted) < voters.majority:
            self.fail(
                f"{node.key} leads epoch {epoch} by the votes of {[str(k) for k in counted]} in {voters}"
            )


def _electorate(node: Node) -> VoterSet:
    """The set that stood in the node's log when it was elected."""
    assert node.process is not None
    role = node.process.node.role
    assert isinstance(role, Leader)
    return node.process.log_view.voters_at(role.epoch_start)


class NewDiskNewReplica(Invariant):
    """M5: a replica whose disk is gone neither votes nor counts; the new disk does only once it is added."""

    name = "M5"

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Node) -> None:
        if voter in self.world.graves:
            self.fail(f"{voter} votes, but its disk is gone")

    def led(self, node: Node) -> None:
        process = node.process
        assert process is not None
        voters = _electorate(node)
        if not any(voter.key.id == node.id and voters.has(node.key) for voter in voters):
            items = process.log_view.voter_sets.items()
            if not any(earlier.has(node.key) for _, earlier in items):
                self.fail(f"{node.key} leads, but never was a voter: {voters}")


class RecoveredPrefix(Invariant):
    """S1: after a crash the log ends at or after the last confirmed sync, and says the same there."""

    name = "S1"

    def truncating(self, node: Node, end_offset: Offset) -> None:
        assert node.process is not None
        if end_offset < node.confirmed[0]:  # what is cut on purpose may be gone after a crash
            node.confirmed = (end_offset, node.process.log_view.epoch_at(end_offset - 1))

    def installing(self, node: Node, snapshot: SnapshotId) -> None:
        node.confirmed = (min(snapshot.end_offset, node.confirmed[0]), -1)  # of the one log or the other

    def stepped(self, node: Node) -> None:
        assert node.process is not None
        log_view = node.process.log_view
        if log_view.persisted != node.confirmed[0]:
            node.confirmed = (log_view.persisted, log_view.epoch_at(log_view.persisted - 1))
            self._check(node, log_view.end_offset)

    def _check(self, node: Node, log_end: Offset) -> None:
        """What counts as durable is in the log, and on the platter."""
        end, epoch = node.confirmed
        if end > log_end:
            self.fail(f"{node.key} counts {end} as durable, its log ends at {log_end}")
        if not node.rotten and not platter_holds(node.disk, METADATA, end, epoch):
            self.fail(f"{node.key} counts {end} as durable, and a power cut would take some of it")

    def started(self, node: Node) -> None:
        process = node.process
        assert process is not None
        end, epoch = node.confirmed
        log_view = process.log_view
        if node.rotten:
            return
        if log_view.end_offset < end:
            self.fail(f"{node.key} had synced up to {end}, its log ends at {log_view.end_offset}")
        if epoch >= 0 and end > log_view.log_start and log_view.epoch_at(end - 1) != epoch:
            self.fail(f"{node.key} had epoch {epoch} before {end}, now {log_view.epoch_at(end - 1)}")


class WrongAddressStaysOut(Invariant):
    """A new voter's endpoint was probed: what does not answer as that replica never enters the set."""

    name = "M8"

    def appended(self, node: Node, batch: Batch) -> None:
        process = node.process
        if process is None or batch.raw is not None or not process.node.is_leader:
            return
        for entry in batch.entries:
            if not isinstance(entry, VotersEntry):
                continue
            before = process.log_view.voters_at(batch.base_offset)
            if _static(before):
                continue
            for voter in entry.voters:
                if before.get(voter.key.id) is None and not self.world.was_at(voter):
                    self.fail(f"{node.key} adds {voter}, which was never there")


class Onlookers(Invariant):
    """No promise: faults that wait for their moment (`nemesis`) are told what happens."""

    def led(self, node: Node) -> None:
        for one in list(self.world.onlookers):
            one.led(node)

    def appended(self, node: Node, batch: Batch) -> None:
        for one in list(self.world.onlookers):
            one.appended(node, batch)

    def installing(self, node: Node, snapshot: SnapshotId) -> None:
        for one in list(self.world.onlookers):
            one.installing(node, snapshot)


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
    OnlyVotersCount,
    NewDiskNewReplica,
    HonestAnswers,
    RecoveredPrefix,
    WrittenBeforeSent,
    WrongAddressStaysOut,
    AnsweredInTime,
    *APPLIED,
    Onlookers,
)


class Promises(Invariant):
    """All of them: each hook calls those who override it."""

    def __init__(self, world: World, kinds: tuple[type[Invariant], ...] = ALL) -> None:
        super().__init__(world)
        self.all = [kind(world) for kind in kinds]
        listen(self, self.all)

    def forget(self, *names: str) -> None:
        """These are not promised any more."""
        self.all = [one for one in self.all if one.name not in names]
        listen(self, self.all)
