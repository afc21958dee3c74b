"""A move that cannot end, for one of its nodes is away, is cancelled; the set of that moment stays."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.join_all(4, 5, 6)
    stage.why("Node 6 hangs. The move to 4,5,6 begins, and waits for it.")
    stage.hang(6)
    stage.type("quorum reassign --target 4,5,6")
    stage.until("a step is taken", lambda: len({v.id for v in stage.quorum().voters} & {4, 5}) >= 1)
    stage.type("quorum reassign", shows="to come: ")
    stage.why("Cancelled, the voters of this moment stay, and no further step is taken.")
    stage.type("quorum reassign --cancel")
    stage.type("quorum reassign", shows="No change of controllers is under way", again=5)
    left = {voter.id for voter in stage.quorum().voters}
    stage.wake(6)
    stage.flowing()
    stage.voters_are(*left)
