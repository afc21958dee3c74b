"""Voters 1,2,3 become 4,5,6 by one command; the leader takes one safe step at a time."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.why("The new controllers follow before they vote: they copy the metadata first.")
    stage.join_all(4, 5, 6)
    stage.why("One command names the target; it is a committed record, so a new leader goes on with it.")
    stage.type("quorum reassign --target 4,5,6")
    stage.voters_are(4, 5, 6)
    stage.type("quorum reassign", shows="No change of controllers is under way", again=5)
    stage.why("The old controllers may go.")
    stage.stop(1, 2, 3)
    stage.flowing()
    stage.type("quorum describe --replication")
