"""Invariants of the voter set: one change at a time, of one key, in force from the log."""

from __future__ import annotations

from itertools import pairwise

from barnabas.model import ZERO_UUID, Offset
from barnabas.raft.entries import Batch, VotersEntry
from barnabas.raft.voters import VoterSet
from barnabas.server.observe.history import lines_of
from barnabas.sim.quorum.invariants.invariant import Invariant
from barnabas.sim.quorum.node import Machine
from barnabas.sim.quorum.process import Process
from barnabas.sim.quorum.world import World

__all__ = ["OneChangeAtATime", "OneKeyDiffers", "RemovalIsTold", "VotersFromTheLog", "WrongAddressStaysOut"]


class OneChangeAtATime(Invariant):
    """M1: at most one change of the key set is uncommitted, and none before the leader's epoch committed."""

    name = "M1"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.open: list[tuple[Process, Batch, int]] = []

    def appended(self, node: Machine, batch: Batch) -> None:
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
        self.open.append((process, batch, log_view.cut))

    def stepped(self, node: Machine) -> None:
        if self.open:
            opened, self.open = self.open, []
            for process, batch, cut in opened:
                # A turn that a crash cut short told nobody what it had committed before it appended.
                if process is node.process and process.log_view.cut == cut:
                    self._check(node, batch)

    def _check(self, node: Machine, batch: Batch) -> None:
        """After the turn: what it committed before the append is known now."""
        assert node.process is not None
        log_view, committed_log = node.process.log_view, self.world.committed_log
        if committed_log.last_epoch < batch.epoch:
            self.fail(f"{node.key} changes the voters, nothing of epoch {batch.epoch} is committed")
        items = log_view.voter_sets.items()
        for (_, old), (offset, new) in pairwise(items):
            if committed_log.end <= offset < batch.base_offset and old.keys_changed(new):
                self.fail(f"{node.key} appends {batch} while the change at {offset} is not committed")


def _static(voters: VoterSet) -> bool:
    return any(key.directory_id == ZERO_UUID for key in voters.keys)


class OneKeyDiffers(Invariant):
    """M2: when a leader changes the key set, exactly one (id, directory id) differs; 0 -> 1 compares ids."""

    name = "M2"

    def appended(self, node: Machine, batch: Batch) -> None:
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

    def stepped(self, node: Machine) -> None:
        process = node.process
        assert process is not None
        log_view = process.log_view
        latest = log_view.voter_sets.latest_offset
        if latest is not None and latest >= max(log_view.end_offset, 1):
            self.fail(
                f"{node.key} counts the voters of offset {latest}, its log ends at {log_view.end_offset}"
            )

    def moved(self, node: Machine, high_watermark: Offset, leads: bool) -> None:
        self.compare(node, high_watermark)

    def compare(self, node: Machine, end: Offset) -> None:
        assert node.process is not None
        end = min(end, self.world.committed_log.end)
        if end < node.process.log_view.log_start:
            return
        sets = [voters for offset, voters in self.world.committed_log.sets if offset < end]
        mine = node.process.log_view.voters_at(end)
        if sets and mine.keys != sets[-1].keys:
            self.fail(f"at {end} node {node.id} has the voters {mine}, decided are {sets[-1]}")


class RemovalIsTold(Invariant):
    """M14: a leader that removed itself leaves the line of the history that says so."""

    name = "M14"

    def left(self, node: Machine) -> None:
        process = node.process
        assert process is not None
        log_view = process.log_view
        offset = log_view.voter_sets.latest_offset
        if offset is None or log_view.epoch_at(offset) != process.node.epoch:
            return  # an earlier leader appended it
        told = lines_of(process.replay.image.cluster_config())
        if not any(f'"remove {node.key}"' in line for line in told):
            self.fail(f"{node.key} removed itself, and the committed history does not say so")


class WrongAddressStaysOut(Invariant):
    """A new voter's endpoint was probed: what does not answer as that replica never enters the set."""

    name = "M8"

    def appended(self, node: Machine, batch: Batch) -> None:
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
