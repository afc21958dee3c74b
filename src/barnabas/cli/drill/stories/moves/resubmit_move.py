"""The leader is killed while the voters move; the same command is typed again, and it ends there."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]

TARGET = (4, 5, 6)


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.join_all(*TARGET)
    stage.type("quorum reassign --target 4,5,6")
    stage.why(
        "The leader dies at once. What it had committed, the target too, its successor finds in the log."
    )
    leader = stage.leader()
    stage.kill(leader)
    stage.leader(but=(leader,))
    if leader in TARGET:
        stage.why("It is one of the target: it has to come back, for a target names living nodes.")
        stage.start(leader)
    stage.why("Who is not sure types the same again: a target that is set already is no error.")
    stage.type("quorum reassign --target 4,5,6", again=15)
    stage.voters_are(*TARGET)
    stage.flowing()
