"""A controller's machine is lost: the dead voter is removed, and another with a new id takes its place."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    lost = next(node for node in (1, 2, 3) if node != stage.leader())
    stage.kill(lost)
    stage.join(4)
    stage.why("Removed first, for of four voters with one dead only one more may fail; two of two are alive.")
    stage.remove(lost)
    stage.add(4)
    stage.voters_are(*({1, 2, 3, 4} - {lost}))
    stage.flowing()
