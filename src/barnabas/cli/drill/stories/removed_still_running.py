"""A voter is removed and nobody stops it: it follows as an observer and disturbs nobody."""

from __future__ import annotations

from barnabas.cli.drill.stage import DrillError, Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    gone = next(node for node in (1, 2, 3) if node != stage.leader())
    stage.remove(gone)
    stage.voters_are(*({1, 2, 3} - {gone}))
    before = stage.quorum()
    stage.why(
        "It hangs for longer than its fetch timeout, the moment at which a voter would call an election."
    )
    stage.hang(gone)
    stage.flowing()
    stage.flowing()
    stage.wake(gone)
    stage.follows(gone)
    stage.flowing()
    after = stage.quorum()
    if (after.leader, after.epoch) != (before.leader, before.epoch):
        raise DrillError(f"the removed node brought a new epoch: {before.epoch} -> {after.epoch}")
    stage.why(f"Still node {after.leader} in epoch {after.epoch}: no election took place.")
