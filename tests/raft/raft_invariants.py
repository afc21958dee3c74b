"""The invariants of the quorum, checked after every event (names as in the reliability sheet: Q1-Q6, M1-M3)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from barnabas.model import NO_NODE, ReplicaKey
from barnabas.raft.entries import Batch, ElectionState, VotersEntry
from barnabas.raft.roles import Leader
from barnabas.raft.voters import VoterSet

if TYPE_CHECKING:
    from raft_cluster import Cluster, Disk, Server


class Invariants:
    """Remembers what happened, and raises AssertionError with the name of an invariant that is broken."""

    def __init__(self) -> None:
        self.leaders: dict[int, int] = {}
        self.votes: dict[tuple[ReplicaKey, int], ReplicaKey] = {}
        self.log: list[tuple[int, int, str]] = []  # committed: base offset, epoch, entries, in order
        self.log_end = 0
        self.by_offset: dict[int, tuple[int, str]] = {}
        self.high_watermarks: dict[tuple[int, int], int] = {}
        self.given: dict[tuple[ReplicaKey, int], int] = {}
        self.logs_seen: dict[int, object] = {}
        self.committed_sets: list[tuple[int, VoterSet]] = []
        self.single_steps = True

    # Q2 -----------------------------------------------------------------

    def saved(self, disk: Disk, state: ElectionState) -> None:
        old = disk.election
        assert old is None or state.epoch >= old.epoch, f"Q2: {disk.key} went back from {old} to {state}"
        if state.voted is not None:
            before = self.votes.setdefault((disk.key, state.epoch), state.voted)
            assert before == state.voted, f"Q2: {disk.key} voted for {before} and {state.voted}: {state}"
        if old is not None and old.epoch == state.epoch and old.leader_id != NO_NODE:
            assert state.leader_id in (old.leader_id, NO_NODE), f"Q1: {disk.key} knew {old} and now {state}"

    def gave_vote(self, disk: Disk, epoch: int, candidate: int) -> None:
        """Q2: a vote that left is the only one of its epoch, and on disk."""
        first = self.given.setdefault((disk.key, epoch), candidate)
        assert first == candidate, (
            f"Q2: {disk.key} gave its vote for epoch {epoch} to {first} and {candidate}"
        )
        saved = disk.election
        known = saved is not None and (saved.epoch > epoch or saved.voted is not None)
        assert known, f"Q2: {disk.key} gave a vote for epoch {epoch} that is not on its disk: {saved}"

    # after every event ----------------------------------------------------

    def check(self, cluster: Cluster, server: Server) -> None:
        node = server.node
        log_view = node.log_view
        assert log_view.log_start <= log_view.persisted <= log_view.end_offset, f"{log_view}"
        stored = server.log[-1].end_offset if server.log else server.disk.log_start
        assert stored == log_view.end_offset, f"the log ends at {stored}, {log_view}"
        if isinstance(node.role, Leader):
            first = self.leaders.setdefault(node.epoch, server.id)
            assert first == server.id, f"Q1: epoch {node.epoch} is led by {first} and {server.id}"
            self._leader_has_all(server)
            self._one_change(server)
        self._same_voters(server)

    def _leader_has_all(self, server: Server) -> None:
        """Q5, at the moment it matters: a new leader holds everything that was ever committed."""
        role = server.node.role
        assert isinstance(role, Leader)
        if role.begin_at > server.cluster.mono or not self.log:
            pass
        if server.node.epoch == max(self.leaders):
            end = server.node.log_view.end_offset
            assert end >= self.log_end, f"Q5: leader n{server.id} ends at {end}, committed is {self.log_end}"

    def _one_change(self, server: Server) -> None:
        """M1: at most one change of the key set is uncommitted; none before this epoch has committed."""
        log_view = server.node.log_view
        high = max(server.node.high_watermark or 0, self.log_end)
        items = log_view.voter_sets.items()
        open_changes = 0
        for (_, before), (offset, after) in itertools.pairwise(items):
            changed = before.keys_changed(after)
            if (
                log_view.kraft_version >= 1
                and offset > 0
                and changed
                and before.keys[0].directory_id.count(0) != 16
            ):
                assert len(changed) == 1 or not self.single_steps, (
                    f"M2: {before} -> {after} changes {changed}"
                )
            if offset >= high and changed:
                open_changes += 1
        assert open_changes <= 1, f"M1: {open_changes} open changes on n{server.id}: {items}"

    def _same_voters(self, server: Server) -> None:
        """M3: the set in force is the last one in log or snapshot."""
        seen = (server.life, len(server.log), server.disk.log_start, server.log[-1] if server.log else None)
        if self.logs_seen.get(server.id) == seen:
            return
        self.logs_seen[server.id] = seen
        expected = None
        for batch in reversed(server.log):
            found = [entry.voters for entry in batch.entries if isinstance(entry, VotersEntry)]
            if found:
                expected = found[-1]
                break
        if expected is None:
            for _, entries, _ in server.disk.snapshots:
                found = [entry.voters for entry in entries if isinstance(entry, VotersEntry)]
                expected = found[-1] if found else expected
        if expected is not None:
            voters = server.node.voters
            assert voters == expected, f"M3: n{server.id} counts by {voters}, its log says {expected}"

    # Q3, Q4, M2 on every commit ------------------------------------------

    def committed(self, cluster: Cluster, server: Server) -> None:
        node = server.node
        high = node.high_watermark
        assert high is not None
        before = self.high_watermarks.get((server.id, server.life), 0)
        assert high >= before, f"Q3: the high watermark of n{server.id} fell from {before} to {high}"
        self.high_watermarks[(server.id, server.life)] = high
        for batch in server.log:
            if batch.end_offset <= high:
                self._agree(server, batch)

    def published(self, cluster: Cluster, server: Server, high: int, voters: VoterSet) -> None:
        """Q3: what a leader calls committed is on the disks of a majority of the set it then has."""
        holders = 0
        for voter in voters:
            disk = cluster.disks.get(voter.key.id)
            if disk is not None and not voters.has(disk.key):
                disk = cluster.broken.get(voter.key)  # it had it when it said so
            if disk is None:
                continue
            end = disk.durable[-1].end_offset if disk.durable else disk.log_start
            holders += end >= high
        assert holders >= voters.majority, f"Q3: {high} is on {holders} disks of {voters}"

    def _agree(self, server: Server, batch: Batch) -> None:
        text = " ".join(
            str(entry) if not hasattr(entry, "payload") else str(entry.payload) for entry in batch.entries
        )
        known = self.by_offset.setdefault(batch.base_offset, (batch.epoch, text))
        assert known == (batch.epoch, text), (
            f"Q4: offset {batch.base_offset} is {known} and, on n{server.id}, {(batch.epoch, text)}"
        )
        self.log_end = max(self.log_end, batch.end_offset)
        for entry in batch.entries:
            voters = getattr(entry, "voters", None)
            if isinstance(voters, VoterSet) and (
                not self.committed_sets or self.committed_sets[-1][0] < batch.base_offset
            ):
                self.committed_sets.append((batch.base_offset, voters))
