"""Mutants of the autopilot: each breaks one of the promises that it makes to operators."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["AUTOPILOT_MUTANTS"]

WHERE = "raft.membership.autopilot"

AUTOPILOT_MUTANTS: tuple[Mutant, ...] = (
    mutant(
        "the silent are given up at once",
        "a voter counts as dead after a second, whatever bound is set",
        f"{WHERE} _standing",
        "> order.dead",
        "> 1.0",
        24,
    ),
    mutant(
        "standbys need not stay",
        "whoever keeps up at this moment is promoted",
        f"{WHERE} _standing",
        ">= order.stability",
        ">= 0.0",
        1,
    ),
    mutant(
        "the autopilot takes back whom it gave up",
        "a removed replica counts as a standby",
        f"{WHERE} _standing",
        "core.log_view.note(steps.tombstone(key)) is None",
        "True",
        38,
    ),
    mutant(
        "even sets",
        "standbys are promoted one by one",
        f"{WHERE} _promote",
        "more = 1 if len(standing.voters) % 2 == 0 else 2",
        "more = 1",
        38,
    ),
    mutant(
        "a dry run acts",
        "the autopilot does what it should only say",
        f"{WHERE} look",
        "elif order.dry_run:",
        "elif False:",
        115,
    ),
    mutant(
        "the autopilot overrides operators",
        "it names a target while another one is in force",
        f"{WHERE} look",
        "if core.log_view.note(target.TARGET) is not None:",
        "if False:",
        66,
    ),
)
