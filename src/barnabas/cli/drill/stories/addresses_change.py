"""All controllers stop and come back at new addresses; the files name one of them."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    from barnabas.testing.cluster import free_ports

    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.stop(1, 2, 3)
    for id_ in (1, 2, 3):
        stage.nodes[id_].controller_port = free_ports()
    addresses = ",".join(f"127.0.0.1:{stage.nodes[id_].controller_port}" for id_ in (1, 2, 3))
    known = addresses.split(",")[1]
    stage.why(f"The files get new listeners, and one address: controller.quorum.bootstrap.servers={known}.")
    for id_ in (1, 2, 3, 11):
        stage.nodes[id_].settings["controller.quorum.bootstrap.servers"] = known
        stage.nodes[id_].write()
    stage.start(1, 2, 3)
    stage.why("The broker learns of them by its own file: it is started anew, too.")
    stage.stop(11)
    stage.start(11)
    stage.voters_are(1, 2, 3)
    stage.until("the set has the new addresses", lambda: _moved(stage, addresses))
    stage.type("quorum describe --status")
    stage.flowing()


def _moved(stage: Stage, addresses: str) -> bool:
    """Whether the committed set names these addresses."""
    known = {endpoint for voter in stage.quorum().voters for endpoint in voter.endpoints}
    return known == {f"CONTROLLER://{address}" for address in addresses.split(",")}
