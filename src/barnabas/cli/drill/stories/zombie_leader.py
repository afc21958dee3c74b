"""A leader hangs and is replaced; when it wakes up it still believes that it leads, and is corrected."""

from __future__ import annotations

from barnabas.cli.drill.stage import DrillError, Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    old = stage.leader()
    epoch = stage.quorum().epoch
    stage.why(
        "SIGSTOP: its connections stay open, it answers nothing. The others elect after their fetch timeout."
    )
    stage.hang(old)
    stage.leader(but=(old,))
    stage.flowing()
    stage.why(
        "It wakes up. Nobody accepts what it says in its old epoch; it hears of the new one and follows."
    )
    stage.wake(old)
    stage.until("the old leader follows", lambda: _caught_up(stage, old))
    found = stage.quorum()
    if found.epoch <= epoch or found.leader == old:
        raise DrillError(f"node {old} leads epoch {found.epoch}, it led {epoch} before it hung")
    stage.voters_are(1, 2, 3)
    stage.flowing()
    stage.type("quorum describe --replication")


def _caught_up(stage: Stage, node: int) -> bool:
    """Whether this voter has fetched to within a few records of the end."""
    quorum = stage.quorum()
    end = max(voter.log_end_offset for voter in quorum.voters)
    return quorum.leader != node and any(
        voter.id == node and voter.log_end_offset >= end - 10 for voter in quorum.voters
    )
