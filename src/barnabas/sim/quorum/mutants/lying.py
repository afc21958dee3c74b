"""Mutants of what guards against disks that lose what was synced; seeds of `sim.quorum.lying` find them."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["ROT_MUTANTS"]

_LOSSES: tuple[Mutant, ...] = (
    mutant(
        "lost entries are not noticed",
        "a log that ends before where it was synced is taken as it is",
        "raft.log_view LogView.restore_synced_end",
        "max(known, self.after_sync(self.persisted))",
        "self.after_sync(self.persisted)",
        3,
    ),
    mutant(
        "a vote by what is left",
        "a voter that lost entries compares candidates with what is left of its log",
        "raft.log_view LogView.vote_end",
        "max((self.last_epoch, self.end_offset), self.synced_end.end)",
        "(self.last_epoch, self.end_offset)",
        11,
    ),
    mutant(
        "who lost entries stands",
        "a voter that lost entries stands for election at once",
        "raft.core Core.may_stand",
        "self.outdated or self.lacks",
        "self.outdated",
        14,
    ),
    mutant(
        "no row of a sync",
        "the row beside the log is written at a start only",
        "server.kraft.marks SyncedEndFile.synced",
        "self._write(self.row._replace(end=end))",
        "pass",
        14,
    ),
    mutant(
        "an unheard-of epoch is believed",
        "a batch whose epoch the disk changed makes the log the newest of all",
        "server.kraft.recovery _Opening._read_open",
        "if epoch > self.newest_epoch:",
        "if False:",
        7,
    ),
    mutant(
        "a changed vote is believed",
        "a start takes another digit in quorum-state for what was written there",
        "server.kraft.election_state read_election",
        "content[_CHECKSUM] != _checksum(content)",
        "False",
        18,
    ),
    mutant(
        "damage is refused",
        "a node with damaged metadata does not start, though the others have them",
        "server.kraft.recovery open_store",
        "(can_vote is True and _knows_others(row))",
        "False",
        1,
    ),
    mutant(
        "a cut counts as a loss",
        "a voter whose log was cut at a leader's word counts what was cut as lost",
        "raft.log_view LogView.truncate",
        "if self.lacks and not lacked:",
        "if False:",
        16,
    ),
    mutant(
        "epochs of what was lost are passed over",
        "a voter that lost entries compares candidates with their offset, in the epoch that is left",
        "raft.log_view LogView.vote_end",
        "max((self.last_epoch, self.end_offset), self.synced_end.end)",
        "(self.last_epoch, max(self.end_offset, self.synced_end.end_offset))",
        guard="tests/server/test_quorum_healing.py::test_damage_where_the_index_points_is_cut_with_its_segment",
    ),
)

_MARKS: tuple[Mutant, ...] = (
    mutant(
        "the oldest row counts",
        "a start goes by the first row of the synced end, not by the last",
        "server.kraft.marks read_synced_end",
        "reversed(range(",
        "iter(range(",
        14,
    ),
    mutant(
        "a rotten row counts",
        "the newest row counts though its checksum is wrong",
        "server.kraft.marks read_synced_end",
        "if checksum == crc32c(content[place : place + _ROW.size - 4]):",
        "if True:",
        guard="tests/server/test_quorum_synced_end.py::test_a_bad_row_leaves_the_one_before_it_and_a_file_of_bad_rows_none",
    ),
    mutant(
        "a cut leaves the row",
        "a leader has the log cut, and the row says that it goes on",
        "server.kraft.storage MetadataStore.truncate",
        "self.synced_end.cut(self.log_view.synced_end)",
        "pass",
        16,
    ),
    mutant(
        "a row is lowered without a sync",
        "a power cut can undo that the row was lowered before a cut",
        "server.kraft.marks SyncedEndFile.cut",
        "durable=True",
        "durable=False",
        1,
    ),
    mutant(
        "a rotten recovery point counts",
        "the recovery point counts though its checksum is wrong",
        "server.kraft.marks read_point",
        'if content["checksum"] != point.checksum:',
        "if False:",
        guard="tests/server/test_quorum_point.py::test_a_senseless_file_is_refused",
    ),
)

_VOTES: tuple[Mutant, ...] = (
    mutant(
        "an older quorum-state is believed",
        "a voter whose quorum-state forgot a vote gives another one",
        "server.kraft.recovery _restore_row",
        "if state.epoch < newest or state.forgets(row.voted):",
        "if False:",
        57,
    ),
    mutant(
        "votes stand in one file",
        "the row beside the log does not say in which epoch this voter voted",
        "server.kraft.storage MetadataStore.save_election",
        "self._writes(lambda: self.synced_end.voted(voted))",
        "self._writes(lambda: None)",
        57,
    ),
    mutant(
        "the epochs of votes are not compared",
        "a quorum-state counts as new if its epoch is that of the log",
        "server.kraft.recovery _restore_row",
        "if state.epoch < newest or state.forgets(row.voted):",
        "if state.epoch < log_view.last_epoch:",
        57,
    ),
    mutant(
        "who abstains votes",
        "a voter that forgot a vote gives one in that epoch",
        "raft.election _grants",
        " or request.epoch <= core.log_view.abstains_to",
        "",
        guard="tests/raft/test_raft_lost_entries.py::test_no_vote_in_an_epoch_in_which_one_was_perhaps_given",
    ),
    mutant(
        "an epoch is forgotten with a vote",
        "a voter that forgot a vote goes back to the epoch before, and stands in that of the vote",
        "raft.election start",
        "max(state.epoch, log_view.last_epoch, log_view.abstains_to)",
        "max(state.epoch, log_view.last_epoch)",
        57,
    ),
)

_DAMAGE: tuple[Mutant, ...] = (
    mutant(
        "a rotten snapshot is read",
        "a snapshot counts though a CRC in it is wrong",
        "server.kraft.records read_snapshot",
        "if not check_crc(buffer, position, header):",
        "if False:",
        guard="tests/server/test_quorum_healing.py::test_a_damaged_snapshot_is_set_aside_where_an_older_one_and_the_log_say_the_same",
    ),
    mutant(
        "batches with a wrong CRC are read",
        "a start takes what the disk has changed for metadata",
        "server.kraft.recovery _read_batches",
        "if not check_crc(data, position, header):",
        "if False:",
        55,
    ),
    mutant(
        "damage is not cut",
        "the log is opened again with what was set aside of it",
        "server.kraft.recovery _Opening._cut",
        "log.truncate_to(end_offset, now)",
        "pass",
        1,
    ),
    mutant(
        "what is set aside stays",
        "a file that the disk has changed is read at each start",
        "server.kraft.recovery _Opening._put_aside",
        'self.disk.rename(f"{self._path}/{name}", f"{self._path}/{name}{_CORRUPT}")',
        "pass",
        1,
    ),
)

ROT_MUTANTS: tuple[Mutant, ...] = (*_LOSSES, *_MARKS, *_VOTES, *_DAMAGE)
