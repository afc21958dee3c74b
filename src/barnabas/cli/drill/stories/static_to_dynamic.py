"""Fixed voters (controller.quorum.voters, kraft.version 0) become voters that change."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.fixed(1, 2, 3)
    stage.brokers(11)
    stage.why(
        "At kraft.version 0 the voters cannot change. The upgrade writes them into the log, with their disks."
    )
    stage.type("features upgrade --feature kraft.version=1", again=10)
    stage.why("From now on the files name addresses to ask, not voters; each node is restarted in turn.")
    addresses = ",".join(f"127.0.0.1:{stage.nodes[id_].controller_port}" for id_ in (1, 2, 3))
    for id_ in (1, 2, 3):
        node = stage.nodes[id_]
        node.settings.pop("controller.quorum.voters")
        node.settings["controller.quorum.bootstrap.servers"] = addresses
        node.write()
        stage.stop(id_)
        stage.start(id_)
        stage.leader()
    stage.join(4)
    stage.add(4)
    stage.remove(1)
    stage.voters_are(2, 3, 4)
    stage.flowing()
