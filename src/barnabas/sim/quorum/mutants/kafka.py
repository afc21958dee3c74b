"""Apache Kafka's own faults of late, as mutants of the quorum's simulator.

A fault that was planted before stands where it was: *two changes at once* in `first`.
"""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Change, Mutant, mutant

__all__ = ["KAFKA"]

KAFKA: tuple[Mutant, ...] = (
    mutant(
        "removed controllers come back with a snapshot",
        "a node that read a snapshot does not know who was removed, and adds whoever asks",
        "server.kraft.records read_snapshot",
        "if isinstance(known, ConfigRecord) and _is_note(known):",
        "if False:",
        10,
    ),
    mutant(
        "observers spin without a leader",
        "a node that may not stand asks at once and again and again whether it may, while it knows no leader",
        "raft.election drive",
        "            role.deadline = inf\n            return",
        "            role.deadline = now.mono\n            return",
        1,
    ),
    Mutant(
        "cut to a shorter leader",
        "a follower cuts what is committed where the log of its leader ends",
        "raft.following",
        "_cut",
        "if end_offset >= core.committed:",
        "if True:",
        19,
        (
            Change("raft.core", "Core.truncate", "if end_offset < committed:", "if False:"),
            Change(
                "raft.identity.origin", "is_stranger", "return theirs != core.origin and", "return False and"
            ),
        ),
    ),
)
