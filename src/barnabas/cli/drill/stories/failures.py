"""A follower is killed with -9, then the leader; both come back."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    leader = stage.leader()
    follower = next(node for node in (1, 2, 3) if node != leader)
    stage.why("A follower dies: a majority is left, nobody notices.")
    stage.kill(follower)
    stage.flowing()
    stage.start(follower)
    stage.why("The leader dies: its connections are reset, so the others do not wait for their timeout.")
    stage.kill(leader)
    stage.leader(but=(leader,))
    stage.flowing()
    stage.start(leader)
    stage.voters_are(1, 2, 3)
