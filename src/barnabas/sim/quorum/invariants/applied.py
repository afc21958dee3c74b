"""Invariants of what nodes do with decisions: what they apply, which replicas they admit, which nodes are
strangers.
"""

from __future__ import annotations

from barnabas.controller.image import RESOURCE_BROKER, MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import ReplicaKey
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.raft.membership.target import parse_target
from barnabas.raft.messages import AddVoterRequest, Response
from barnabas.server.kraft.records import decode_batch
from barnabas.sim.quorum.invariants.committed_log import SETTINGS_OF, Decided, text_of
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.requests import ChangeAsked
from barnabas.sim.quorum.world import World
from barnabas.wire.records import batches

__all__ = ["APPLIED"]


class AppliedWithoutGap(Invariant):
    """Q7: a node applies every committed batch, each once, in order, as soon as it knows it to be committed."""

    name = "Q7"

    def committed(self, node: Machine, batch: Batch) -> None:
        assert node.process is not None
        applied = node.process.applied
        if batch.base_offset != applied:
            self.fail(
                f"{node.key} applies {batch} at {batch.base_offset}; it had applied all below {applied}"
            )
        node.process.applied = batch.end_offset

    def installed(self, node: Machine) -> None:
        assert node.process is not None
        node.process.applied = node.process.replay.image.offset + 1

    def applied(self, node: Machine) -> None:
        process = node.process
        assert process is not None
        end = process.replay.image.offset + 1
        if not node.rotten and end != process.published:
            self.fail(f"{node.key} knows all below {process.published} to be committed, and applied {end}")


class ImageMatchesCommittedLog(Invariant):
    """Q8: at every moment a node's image says what was decided up to its offset, from a snapshot or the log."""

    name = "Q8"

    def started(self, node: Machine) -> None:
        self.compare(node)

    def installed(self, node: Machine) -> None:
        self.compare(node)

    def applied(self, node: Machine) -> None:
        self.compare(node)

    def compare(self, node: Machine) -> None:
        assert node.process is not None
        if node.rotten:
            return
        image = node.process.replay.image
        decided = self.world.committed_log.states.get(image.offset + 1)
        if decided is None:
            self.fail(f"{node.key} has an image up to {image.offset}, where nothing decided ends")
            return
        for name, shown in (("settings", _settings(image)), ("notes", _notes(image))):
            expected = decided.settings if name == "settings" else decided.notes
            if shown != expected:
                wrong = sorted(set(shown.items()) ^ set(expected.items()))
                self.fail(
                    f"the {name} of {node.key} are not what was decided up to {image.offset}: {wrong[:4]}"
                )


def _settings(image: MetadataImage) -> dict[str, str]:
    return image.configs.get((RESOURCE_BROKER, SETTINGS_OF), {})


def _notes(image: MetadataImage) -> dict[str, str]:
    return image.configs.get((RESOURCE_BROKER, ""), {})


class DecidedStandsInTheLog(Invariant):
    """Q4 at the end: what every node has on disk below its high watermark says what was decided, in words."""

    name = "Q4"

    def finished(self) -> None:
        decided = self.world.committed_log.batches
        for node in self.world.nodes.values():
            if node.process is None or node.apart:
                continue
            log, end = node.process.store.log, node.process.node.high_watermark or 0
            offset = max(log.log_start_offset, node.process.log_view.log_start)
            while offset < end:
                data = log.read(offset, 1 << 20, end).read()
                for position, header in batches(data):
                    batch = decode_batch(data, position, header)
                    self._compare(node, batch, decided.get(batch.base_offset))
                    offset = batch.end_offset

    def _compare(self, node: Machine, batch: Batch, known: Decided | None) -> None:
        mine = batch.epoch, batch.end_offset, text_of(batch)
        if known is not None and mine != known[:3]:
            self.fail(f"{node.key} has {mine} at {batch.base_offset}; decided is {known}")


class RefusedIsNeverCommitted(Invariant):
    """Q9: a write that a client was told is refused stands in no committed batch."""

    name = "Q9"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.texts: set[str] = set()
        self.writes: set[str] = set()

    def refused(self, node: Machine, write: str) -> None:
        self.texts.add(write)
        if write in self.writes:
            self.fail(f"{node.key} refuses {write}, which is committed")

    def committed(self, node: Machine, batch: Batch) -> None:
        text = text_of(batch)
        self.writes.add(text)
        if text in self.texts:
            self.fail(f"{batch} is committed, and {text} was refused")


_MAY_STILL_COME = (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_LEADER_OR_FOLLOWER)


class OnlyAskedVotersEnter(Invariant):
    """M9: a replica becomes a voter because somebody asked for it and was not refused; one that was removed, only
    because an operator did (or a target set names it).
    """

    name = "M9"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.known = 0
        self.removed: set[ReplicaKey] = set()
        self.named: set[ReplicaKey] = set()
        self.asked: dict[ReplicaKey, list[ChangeAsked]] = {}

    def change_asked(self, node: Machine, change: ChangeAsked) -> None:
        assert node.process is not None
        if isinstance(change.request, AddVoterRequest) and node.process.node.is_leader:
            self.asked.setdefault(change.request.voter, []).append(change)

    def change_answered(self, node: Machine, change: ChangeAsked, response: Response) -> None:
        request = change.request
        if isinstance(request, AddVoterRequest) and response.error not in _MAY_STILL_COME:
            known = self.asked.get(request.voter, [])
            if change in known:
                known.remove(change)

    def committed(self, node: Machine, batch: Batch) -> None:
        committed_log = self.world.committed_log
        if committed_log.targets and (target := committed_log.targets[-1]) is not None:
            self.named.update(member.key for member in parse_target(target))
        sets = committed_log.sets
        while self.known < len(sets):
            before = sets[self.known - 1][1].keys if self.known else sets[0][1].keys
            now = sets[self.known][1].keys
            self.known += 1
            static = any(not any(key.directory_id) for key in before)
            for key in now:
                if key not in before and not static:  # the upgrade gives their names to voters there are
                    self._enters(key)
            for key in before:
                if key not in now:
                    self.removed.add(key)
                    self.named.discard(key)

    def _enters(self, key: ReplicaKey) -> None:
        asked = self.asked.get(key, [])
        allowed = [change for change in asked if key not in self.removed or callable(change.token)]
        if not allowed and key not in self.named:
            who = "was removed and comes back" if key in self.removed else "becomes a voter"
            self.fail(f"{key} {who}, and nobody asked for it")


class NoVoterRecordWithoutAChange(Invariant):
    """M10: voter records are bounded: each says something that the one before it does not."""

    name = "M10"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.known = 1

    def committed(self, node: Machine, batch: Batch) -> None:
        sets = self.world.committed_log.sets
        while self.known < len(sets):
            (_, before), (offset, now) = sets[self.known - 1 : self.known + 1]
            self.known += 1
            if before == now:
                self.fail(f"the voter record at {offset} says again what the one before it says: {now}")


class StrangersAreStrange(Invariant):
    """M11: whoever is called a stranger was formatted to be a quorum of its own; nobody loads its snapshot."""

    name = "M11"

    def estranged(self, node: Machine, said: dict[str, object]) -> None:
        kind, _, number = str(said["who"]).replace(":", " ").partition(" ")
        who = int(number) if kind == "node" else self.world.network.addresses.get((kind, int(number)), 0)
        if who not in self.world.strangers:
            self.fail(f"{node.key} calls {said['who']} a stranger: {said['why']}")


class SnapshotOfOurs(Invariant):
    """Q8 again: a snapshot that a node is about to load ends where something decided ends, in its epoch."""

    name = "Q8"

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        committed_log = self.world.committed_log
        if snapshot.end_offset <= committed_log.end and snapshot.end_offset not in committed_log.states:
            self.fail(f"{node.key} loads {snapshot}, where nothing decided ends")


APPLIED: tuple[type[Invariant], ...] = (
    AppliedWithoutGap,
    ImageMatchesCommittedLog,
    DecidedStandsInTheLog,
    RefusedIsNeverCommitted,
    OnlyAskedVotersEnter,
    NoVoterRecordWithoutAChange,
    StrangersAreStrange,
    SnapshotOfOurs,
)
