"""A controller's disk is lost. With an empty one it is another replica: the old entry goes, the new one comes."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    lost = next(node for node in (1, 2, 3) if node != stage.leader())
    old = stage.nodes[lost].directory_id
    stage.kill(lost)
    stage.lose_disk(lost)
    stage.why("An empty disk has forgotten its votes, so it is formatted to join: a new directory id.")
    stage.format(lost, "--no-initial-controllers")
    stage.start(lost)
    stage.follows(lost)
    stage.why("First the old entry is removed (two of two remain, both alive), then the new one added.")
    stage.remove(lost, old)
    stage.add(lost)
    stage.voters_are(1, 2, 3)
    stage.flowing()
