"""One node forms a quorum alone; two more join it while records flow."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.why("The first node is formatted --standalone: it is a quorum of one.")
    stage.alone(1)
    stage.brokers(11)
    for newcomer in (2, 3):
        stage.why(f"Node {newcomer} is formatted to join. It follows; add-controller makes it a voter.")
        stage.join(newcomer)
        stage.add(newcomer)
    stage.voters_are(1, 2, 3)
    stage.flowing()
