"""The planted bugs of the quorum's simulator: which function, what is changed, and the first seed that sees it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FIRST", "Bug", "Change"]


class Change(NamedTuple):
    """`function` in `module`: `old` becomes `new`."""

    module: str
    function: str
    old: str
    new: str


class Bug(NamedTuple):
    """`function` in `module`: `old` becomes `new`; `also`: more of that kind.  `seed` 0: not found."""

    name: str
    says: str
    module: str
    function: str
    old: str
    new: str
    seed: int
    also: tuple[Change, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        return (Change(*self[2:6]), *self.also)


FIRST: tuple[Bug, ...] = (
    Bug(
        "second vote",
        "a node votes again in an epoch in which it has voted",
        "raft.election",
        "_grants",
        "return _same(role.voted, request.candidate)",
        "return up_to_date",
        13,
    ),
    Bug(
        "vote for a shorter log",
        "a vote is given without comparing the logs",
        "raft.election",
        "_grants",
        ">= mine",
        ">= (0, 0)",
        1,
    ),
    Bug(
        "vote before it is saved",
        "requests and answers leave before the election state is durable",
        "raft.core",
        "Core._leave",
        "if self.unsaved:",
        "if False:",
        1,
    ),
    Bug(
        "vote of a new disk",
        "a vote meant for the old disk of a node is given by the new one",
        "raft.election",
        "_addressed",
        "_same(voter, core.key)",
        "voter.id == core.key.id",
        4,
    ),
    Bug(
        "same epoch again",
        "a candidate stands again in its present epoch",
        "raft.election",
        "_stand",
        "core.epoch + 1",
        "max(1, core.epoch)",
        1,
    ),
    Bug(
        "election state is not read",
        "a node that restarts has forgotten its epoch and its vote",
        "raft.election",
        "start",
        "state = saved or ElectionState()",
        "state = ElectionState(core.log_view.last_epoch)",
        1,
    ),
    Bug(
        "minority elects",
        "half of the voters elect a leader",
        "raft.voters",
        "VoterSet.majority",
        "len(self.voters) // 2 + 1",
        "(len(self.voters) + 1) // 2",
        1,
    ),
    Bug(
        "leader counts what it has not synced",
        "the leader's own end counts before its sync has ended",
        "raft.leadership",
        "_advance",
        "core.log_view.persisted if",
        "core.log_view.end_offset if",
        1,
    ),
    Bug(
        "removed leader counts itself",
        "a leader that is no voter any more takes part in the majority",
        "raft.leadership",
        "_advance",
        "held = ends[len(ends) // 2]",
        "ends = sorted(ends + ([] if core.voters.has(core.key) else [core.log_view.persisted]))[::-1]; "
        "held = ends[len(ends) // 2]",
        9,
    ),
    Bug(
        "older epochs count",
        "an entry of an older epoch is committed by counting it",
        "raft.leadership",
        "_advance",
        "held > role.epoch_start and",
        "held > (core.high_watermark or 0) and",
        1,
    ),
    Bug(
        "fetch before sync",
        "a follower asks for more before what it has is on disk",
        "raft.following",
        "drive",
        "core.log_view.persisted < core.log_view.end_offset",
        "False",
        1,
    ),
    Bug(
        "divergence is overlooked",
        "a leader takes the log of every follower for a prefix of its own",
        "raft.log_view",
        "LogView.check_fetch",
        "known.epoch != last_epoch or known.end_offset < offset",
        "False",
        1,
    ),
    Bug(
        "cut too far",
        "a follower whose log differs is cut to nothing but its snapshot",
        "raft.log_view",
        "LogView.divergence",
        "return min(mine.end_offset, leader.end_offset)",
        "return self.log_start",
        1,
    ),
    Bug(
        "voters are not taken back",
        "a truncation leaves the voter set of a truncated entry in force",
        "raft.log_view",
        "LogView.truncate",
        "self.voter_sets.truncate(end_offset)",
        "pass",
        2,
    ),
    Bug(
        "two changes at once",
        "a change begins while another one is not committed",
        "raft.membership.steps",
        "open_change",
        "offset is not None and",
        "offset is None and",
        1,
    ),
    Bug(
        "change before the own epoch",
        "the voters change before anything of the leader's epoch is committed",
        "raft.leadership",
        "committed_in_this_epoch",
        "(core.high_watermark or 0) > role.epoch_start",
        "True",
        4,
    ),
    Bug(
        "nobody asks who it is",
        "a voter is added at whatever address it was offered",
        "raft.membership.steps",
        "_probe",
        "if probe.is_who_it_says:",
        "if probe.versions is not None:",
        1,
    ),
    Bug(
        "answer before commit",
        "AddRaftVoter and RemoveRaftVoter are answered when the record is appended",
        "raft.membership.pending",
        "_step",
        "if isinstance(request, AddVoterRequest) and not request.ack_when_committed:",
        "if True:",
        1,
    ),
    Bug(
        "patience without end",
        "a change that cannot begin waits for ever",
        "raft.membership.pending",
        "drive",
        "change.deadline <= now.mono",
        "change.deadline <= 0.0",
        10,
        (
            Change(
                "raft.membership.pending", "deadline", "if not change.answered", "if change.answered is None"
            ),
        ),
    ),
    Bug(
        "pre-votes for everybody",
        "a follower with a healthy leader gives its pre-vote",
        "raft.election",
        "_grants",
        "return up_to_date and not follows",
        "return up_to_date",
        2,
    ),
    Bug(
        "voters of the snapshot's end",
        "a snapshot holds the newest voters, not those at its end",
        "server.kraft.snapshots",
        "SnapshotKeeper.begin",
        "log_view.voters_at(end)",
        "log_view.voters",
        2,
    ),
    Bug(
        "voters forgotten by the snapshot",
        "a snapshot holds no voters",
        "server.kraft.records",
        "snapshot_batches",
        "kraft_version > 0 and voters is not None",
        "epoch == 0 and voters is not None",
        1,
    ),
    Bug(
        "log survives a download",
        "the log continues at its old end when a snapshot was downloaded",
        "server.kraft.storage",
        "MetadataStore._begin_behind",
        "self.log.truncate_fully_and_start_at(at.end_offset, self.clock.now())",
        "pass",
        1,
    ),
    Bug(
        "the cut behind a download comes back",
        "a log that a crash brought back is taken for the one that the snapshot ends in",
        "server.kraft.storage",
        "_begins_elsewhere",
        "return before[-1] != newest.epoch",
        "return False",
        35,
    ),
    Bug(
        "sync that is none",
        "the log's sync returns without syncing",
        "log.storage.sync",
        "SyncJob._run",
        "file.sync()",
        "pass",
        1,
    ),
    Bug(
        "sync told too early",
        "the log says that it is durable before the sync has run",
        "server.kraft.storage",
        "MetadataStore.start_sync",
        "self._thread.run(job.run,",
        "self._receive(Persisted(ticket.end_offset, ticket.cut)) or self._thread.run(job.run,",
        1,
    ),
    Bug(
        "election state is not replaced",
        "quorum-state is said to be saved and was not written",
        "server.kraft.storage",
        "MetadataStore.save_election",
        'self.disk.replace(f"{self.path}/{QUORUM_STATE}", content)',
        "content",
        1,
    ),
    Bug(
        "no CRC at recovery",
        "opening a log takes torn batches for good ones",
        "log.segments.scan",
        "batches_of",
        "if not check_crc(chunk, at, header):",
        "if False:",
        21,
    ),
    Bug(
        "send before persist",
        "what a step sends leaves before what it writes is written",
        "raft.driver",
        "Driver._carry_out",
        "self._persist(effects)\n    self._send(effects)",
        "self._send(effects)\n    self._persist(effects)",
        1,
    ),
    Bug(
        "silent place asked for ever",
        "a voter that does not answer at its last address is never tried at another (our own)",
        "raft.peers",
        "Peers.try_next_endpoint",
        "self.place(node_id) + 1",
        "max(1, self.place(node_id))",
        9,
    ),
    Bug(
        "old name of a segment",
        "a segment that is being deleted is opened by its old name (our own)",
        "log.log",
        "Log.doom",
        "if file.path != path",
        "if file is not segment.file",
        5,
    ),
    Bug(
        "late answers count",
        "the answer to a request of an earlier epoch counts in the present one",
        "raft.election",
        "on_vote_response",
        """    if not find_leader(core, response, now):
        if response.error is not ErrorCode.NONE:
            core.peers.back_off(node_id, now.mono)
        return
    role = core.role
    if request.epoch != core.epoch:
        return
""",
        "    role = core.role\n",
        64,
        (
            Change(
                "raft.core", "Core.become", "if new_leader or not isinstance(role, Follower):", "if False:"
            ),
        ),
    ),
)
