"""The leader itself is to go: it leads until the others have committed that, then resigns."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    leader = stage.leader()
    stage.join(4)
    stage.why(f"Node {leader} leads. 4 takes its place; the leader goes last and names its successor.")
    stage.follows(4)
    staying = [node for node in (1, 2, 3) if node != leader]
    stage.type(f"quorum reassign --target {','.join(map(str, [*staying, 4]))}")
    stage.voters_are(*staying, 4)
    stage.leader(but=(leader,))
    stage.stop(leader)
    stage.flowing()
