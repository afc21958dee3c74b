"""The wrong format command: a second quorum with the id of a cluster that lives is refused."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.why("Node 4 shall join. Typed wrong, it would be a quorum of its own with this cluster's id.")
    node = stage.node(4)
    stage.format(4, "--standalone", code=1, shows="next: ")
    stage.why("Started without format, it asks the controllers and says how to format it.")
    stage.type(f"start {node.file}", code=1, shows="next: ")
    stage.why("The command for a node that joins.")
    stage.format(4, "--no-initial-controllers")
    stage.start(4)
    stage.add(4)
    stage.why("A disk of another cluster: both sides ignore each other, and the node's log says so.")
    stage.node(5)
    own, stage.cluster_id = stage.cluster_id, stage.type("storage random-uuid", quiet=True).strip()
    stage.format(5, "--no-initial-controllers")
    stage.cluster_id = own
    stage.launch(5)
    stage.nodes[5].may_end()
    stage.until("node 5 says so", lambda: "quorum.stranger" in stage.nodes[5].text())
    stage.kill(5)
    stage.voters_are(1, 2, 3, 4)
    stage.flowing()
