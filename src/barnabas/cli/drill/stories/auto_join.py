"""controller.quorum.auto.join.enable=true: a controller that follows makes itself a voter."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.alone(1)
    stage.brokers(11)
    stage.why("Two controllers with auto-join: nobody types add-controller.")
    for newcomer in (2, 3):
        stage.join(newcomer, controller_quorum_auto_join_enable="true")
    stage.voters_are(1, 2, 3)
    stage.flowing()
