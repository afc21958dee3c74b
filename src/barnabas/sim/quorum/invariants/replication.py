"""Invariants of the replicated log: the high watermark is held, logs agree, and nothing committed is lost."""

from __future__ import annotations

import re

from barnabas.controller.image import RESOURCE_BROKER
from barnabas.model import ZERO_UUID, Epoch, NodeId, Offset, ReplicaKey
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.sim.quorum.invariants.committed_log import FEATURES, METADATA, SETTINGS_OF, text_of
from barnabas.sim.quorum.invariants.durable_view import survives_power_cut
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.wire.records import batches

__all__ = ["HighWatermarkIsHeld", "LeaderHasAll", "LogsAgree", "NothingCommittedIsCut", "RecoveredPrefix"]


class HighWatermarkIsHeld(Invariant):
    """Q3: what a leader publishes never falls, and is durable at a majority of its latest voter set, whose nodes
    can vote.
    """

    name = "Q3"

    def moved(self, node: Machine, high_watermark: Offset, leads: bool) -> None:
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
                self.fail(f"{node.key} says {high_watermark}; of {voters} it is durable at {held}")

    def _holds(self, key: ReplicaKey, end: Offset, epoch: Epoch) -> bool:
        node = self.world.nodes.get(key.id)
        if node is not None and key.directory_id in (node.key.directory_id, ZERO_UUID):
            if node.without_role and end > node.held_with_role:
                return False  # who cannot vote does not count
            return survives_power_cut(node.disk, METADATA, end, epoch)
        grave = self.world.graves.get(key)
        return grave is not None and survives_power_cut(grave, METADATA, end, epoch)


class LogsAgree(Invariant):
    """Q4: what is committed is the same (offset, epoch, content) on all nodes and for good."""

    name = "Q4"

    def committed(self, node: Machine, batch: Batch) -> None:
        assert node.process is not None
        wrong = self.world.committed_log.commit(batch, node.process.node.core.epoch)
        if wrong:
            self.fail(f"node {node.id}: {wrong}")

    def started(self, node: Machine) -> None:
        """What stands in the log before the end of the newest snapshot is what that snapshot came from."""
        process, decided = node.process, self.world.committed_log.batches
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

    def led(self, node: Machine) -> None:
        process, committed_log = node.process, self.world.committed_log
        assert process is not None
        if process.node.epoch < max(self.world.epochs_led, default=0):
            return
        self.world.epochs_led.add(process.node.epoch)
        end = process.log_view.end_offset
        if end < committed_log.end:
            self.fail(f"{node.key} leads with a log up to {end}; committed is {committed_log.end}")
        for batch, _, _ in process.store.waiting:
            known = committed_log.batches.get(batch.base_offset)
            if known is not None and (known.epoch != batch.epoch or known.text != text_of(batch)):
                self.fail(f"{node.key} leads with {batch}, decided is {known}")

    def acknowledged(self, node: Machine, write: str, offset: Offset) -> None:
        committed_log = self.world.committed_log
        known = committed_log.batches.get(offset)
        if known is None or (write != FEATURES and write not in known.text):
            self.fail(f"{write} is acknowledged at {offset}, where {known} stands")
        committed_log.acknowledged[write] = offset

    def finished(self) -> None:
        committed_log = self.world.committed_log
        leader = self.world.leader
        assert leader is not None and leader.process is not None
        image = leader.process.replay.image
        last: dict[str, str] = {}
        for base, decided in committed_log.batches.items():
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

    def truncating(self, node: Machine, end_offset: Offset) -> None:
        process, committed_log = node.process, self.world.committed_log
        assert process is not None
        if node.rotten:
            return
        epoch = process.node.core.epoch
        for batch, _, _ in process.store.waiting:
            if batch.end_offset > end_offset:
                known = committed_log.batches.get(batch.base_offset)
                if known is not None and known.epoch == batch.epoch and known.leader_epoch <= epoch:
                    self.fail(f"{node.key} cuts to {end_offset} and loses {batch}, which is committed")
        if end_offset <= process.replay.image.offset:
            self.fail(f"{node.key} cuts to {end_offset} below what it applied")

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        process, committed_log = node.process, self.world.committed_log
        assert process is not None
        if process.node.is_leader:
            self.fail(f"leader {node.key} loads snapshot {snapshot}")
        if snapshot.end_offset > committed_log.end:
            self.fail(f"{node.key} loads {snapshot}, only {committed_log.end} is committed")

    def stepped(self, node: Machine) -> None:
        process = node.process
        assert process is not None
        log_view = process.log_view
        start = log_view.log_start
        if start and all(s.end_offset != start for s, _ in log_view.snapshots):
            self.fail(f"{node.key} starts its log at {start}, without a snapshot that ends there")
        if log_view.snapshots and log_view.snapshots[-1][0].end_offset > max(self.world.committed_log.end, 0):
            self.fail(f"{node.key} holds snapshot {log_view.snapshots[-1][0]}, not all of it committed")


class RecoveredPrefix(Invariant):
    """S1: after a crash the log ends at or after the last confirmed sync, and says the same there."""

    name = "S1"

    def truncating(self, node: Machine, end_offset: Offset) -> None:
        assert node.process is not None
        if end_offset < node.confirmed[0]:  # what is cut on purpose may be gone after a crash
            node.confirmed = (end_offset, node.process.log_view.epoch_at(end_offset - 1))

    def installing(self, node: Machine, snapshot: SnapshotId) -> None:
        node.confirmed = (min(snapshot.end_offset, node.confirmed[0]), -1)  # of the one log or the other

    def stepped(self, node: Machine) -> None:
        assert node.process is not None
        log_view = node.process.log_view
        if log_view.persisted != node.confirmed[0]:
            node.confirmed = (log_view.persisted, log_view.epoch_at(log_view.persisted - 1))
            self._check(node, log_view.end_offset)

    def _check(self, node: Machine, log_end: Offset) -> None:
        """What counts as durable is in the log, and would survive a power cut."""
        end, epoch = node.confirmed
        if end > log_end:
            self.fail(f"{node.key} counts {end} as durable, its log ends at {log_end}")
        if not node.rotten and not survives_power_cut(node.disk, METADATA, end, epoch):
            self.fail(f"{node.key} counts {end} as durable, and a power cut would take some of it")

    def started(self, node: Machine) -> None:
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
