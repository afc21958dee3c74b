"""Mutants of what guards against disks that lose what was synced; seeds of `sim.quorum.rot` find them."""

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
)
