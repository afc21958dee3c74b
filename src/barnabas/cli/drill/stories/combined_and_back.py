"""The quorum moves from processes of its own into those of brokers, and out again."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.why("Three combined nodes: broker and controller in one process.")
    for node in (4, 5, 6):
        stage.join(node, "broker,controller")
        stage.follows(node)
    stage.type("quorum reassign --target 4,5,6")
    stage.voters_are(4, 5, 6)
    stage.flowing()
    stage.why("And back: 1, 2 and 3 still run and follow.")
    stage.type("quorum reassign --target 1,2,3")
    stage.voters_are(1, 2, 3)
    stage.flowing()
    stage.type("brokers list")
