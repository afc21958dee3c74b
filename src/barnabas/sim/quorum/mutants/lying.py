"""Mutants of what guards against disks that lose what was synced; seeds of `sim.quorum.lying` find them."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["ROT_MUTANTS"]

ROT_MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "lost entries are not noticed",
        "a log that ends before where it was synced is taken as it is",
        "raft.log_view LogView.restore_synced_end",
        "max(known, self.after_sync(self.persisted))",
        "self.after_sync(self.persisted)",
        2,
    ),
    mutant(
        "a vote by what is left",
        "a voter that lost entries compares candidates with what is left of its log",
        "raft.log_view LogView.vote_end",
        "max((self.last_epoch, self.end_offset), self.synced_end.end)",
        "(self.last_epoch, self.end_offset)",
        17,
    ),
    mutant(
        "who lost entries stands",
        "a voter that lost entries stands for election at once",
        "raft.core Core.may_stand",
        "self.outdated or self.lacks",
        "self.outdated",
        2,
    ),
    mutant(
        "no row of a sync",
        "the row beside the log is written at a start only",
        "server.kraft.marks SyncedEndFile.synced",
        "self._write(self.row._replace(end=end))",
        "pass",
        2,
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
        25,
    ),
    mutant(
        "damage is refused",
        "a node with damaged metadata does not start, though the others have them",
        "server.kraft.recovery open_store",
        "(can_vote is True and row.end.voters > 1)",
        "False",
        1,
    ),
)
