"""Two of three controllers are gone for good; one goes on by force. Then the two return."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.flowing()
    stage.why(
        "Two die. One of three is no majority: nothing is committed, topics cannot be made; records still flow."
    )
    stage.kill(1, 2)
    stage.flowing(metadata=False)
    stage.why(
        "The survivor is stopped. The plan is read, then applied by its hash: what was read, nothing else."
    )
    stage.stop(3)
    said = stage.type("quorum recover plan --config n3.properties", shows="What may be lost:")
    shown = said.rpartition("Plan ")[2].partition(":")[0]
    stage.type(f"quorum recover apply --config n3.properties --plan {shown} --yes")
    stage.type("quorum recover verify --config n3.properties", shows="has the recovered log and votes")
    stage.start(3)
    stage.voters_are(3)
    stage.flowing()
    stage.why(
        "The two that were lost return with their old disks, a majority of the old set: they are refused."
    )
    for old in (1, 2):
        stage.launch(old)
        stage.nodes[old].may_end()
    stage.until("both are refused", lambda: all(_refused(stage, old) for old in (1, 2)))
    stage.voters_are(3)
    stage.why("Their disks are emptied and formatted to join, as new members.")
    for old in (1, 2):
        stage.kill(old)
        stage.lose_disk(old)
        stage.format(old, "--no-initial-controllers")
        stage.start(old)
        stage.add(old)
    stage.voters_are(1, 2, 3)
    stage.flowing()


def _refused(stage: Stage, node: int) -> bool:
    """Whether it has said that its directory belongs to a quorum that is over."""
    return "incarnation" in stage.nodes[node].text()
