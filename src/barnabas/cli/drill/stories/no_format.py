"""Nodes that are started without a format step, one command that begins the cluster, and a disk that is lost."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    nodes = [stage.node(id_) for id_ in (1, 2, 3)]
    addresses = [f"127.0.0.1:{node.controller_port}" for node in nodes]
    for node in nodes:
        node.words = ("--join", ",".join(addresses))
    stage.why("Three new nodes are started with the same words. None is formatted; they wait for a cluster.")
    stage.launch(1, 2, 3)
    stage.why("One command, once, begins a cluster with node 1. The others join it by themselves.")
    said = stage.type(f"quorum -C {addresses[0]} bootstrap", again=20.0)
    stage.cluster_id = said.split()[1]
    for id_ in (1, 2, 3):
        stage.until(f"node {id_} is ready", nodes[id_ - 1].is_ready)
    stage.brokers(11)
    for id_ in (2, 3):
        stage.add(id_)
    stage.voters_are(1, 2, 3)
    stage.why("Typed again, at any node, it begins nothing.")
    stage.type(f"quorum -C {addresses[1]} bootstrap", code=1, shows="already")
    stage.why(
        "Node 3 loses its disk. It begins no second cluster; started by the same words it joins as an observer."
    )
    stage.kill(3)
    stage.lose_disk(3)
    nodes[2].settings["controller.quorum.bootstrap.servers"] = ",".join(addresses)
    nodes[2].write()
    stage.type(f"start {nodes[2].file} --bootstrap", code=1, shows="next: ")
    stage.start(3)
    stage.until("its log has the advice", lambda: "quorum replace --node 3" in nodes[2].text())
    stage.type("quorum replace --node 3 --wait", again=20.0)
    stage.voters_are(1, 2, 3)
    stage.flowing()
