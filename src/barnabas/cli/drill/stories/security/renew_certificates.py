"""The nodes get new certificates, and then certificates of a new authority, while they run."""

from __future__ import annotations

import os
import shutil

from barnabas.cli.drill.node import StageNode
from barnabas.cli.drill.stage import Stage

__all__ = ["play"]

NODES = (1, 2, 3)
LISTENERS = 3
TRUSTED = "trusted.pem"


def play(stage: Stage) -> None:
    stage.why("Three nodes that know each other, and their clients, by certificates of one authority.")
    stage.type("certs init old", quiet=True)
    for name in ("node1", "node2", "node3", "app"):
        _issue(stage, "old", name, quiet=True)
    _trust(stage, "old")
    stage.security = {
        "security.protocol": "SSL",
        "ssl.ca.location": os.path.join(stage.directory, TRUSTED),
        "ssl.certificate.location": os.path.join(stage.directory, "app.pem"),
        "ssl.key.location": os.path.join(stage.directory, "app.pem"),
    }
    stage.form(
        *NODES, roles="broker,controller", prepare=lambda node: _secure(stage, node), min_insync_replicas="2"
    )
    stage.flow(3, 3, NODES)

    stage.why("New certificates of the same authority: each file is replaced, and loaded within seconds.")
    for id_ in NODES:
        _issue(stage, "old", f"node{id_}", quiet=id_ > 1)
    _loaded(stage, 1)
    stage.flowing()

    stage.why("A new authority. First everybody trusts both: the files of nodes and clients get it, too.")
    stage.type("certs init new")
    _trust(stage, "old", "new")
    _loaded(stage, 2)
    _clients_come_again(stage)

    stage.why("Then certificates of the new one.")
    for name in ("node1", "node2", "node3", "app"):
        _issue(stage, "new", name, quiet=name != "node1")
    _loaded(stage, 3)
    _clients_come_again(stage)

    stage.why("At last nobody trusts the old one any more.")
    _trust(stage, "new")
    _loaded(stage, 4)
    _clients_come_again(stage)
    stage.why("A node that starts now meets the others with nothing of the old authority.")
    leader = stage.leader()
    stage.kill(leader)
    stage.start(leader)
    stage.until("all replicas are in sync", stage.whole)
    stage.flowing()


def _secure(stage: Stage, node: StageNode) -> None:
    node.listen_apart(stage.security)
    node.settings |= {
        "listener.security.protocol.map": "CLIENTS:SSL,NODES:SSL,CONTROLLER:SSL",
        "ssl.client.auth": "required",
        "ssl.truststore.location": TRUSTED,
        "ssl.keystore.location": f"node{node.id}.pem",
    }


def _issue(stage: Stage, authority: str, name: str, *, quiet: bool = False) -> None:
    """A certificate in a file of its own, which then takes the place of the old one."""
    hosts = " --host localhost,127.0.0.1" if name.startswith("node") else ""
    stage.type(f"certs issue {authority} {name}{hosts} --out {name}.new", quiet=quiet)
    stage.replace(f"{name}.new", f"{name}.pem", quiet=quiet)


def _trust(stage: Stage, *authorities: str) -> None:
    """The authorities in which nodes and clients believe."""
    with open(os.path.join(stage.directory, "trusted.new"), "wb") as file:
        for authority in authorities:
            with open(os.path.join(stage.directory, authority, "ca.pem"), "rb") as certificate:
                shutil.copyfileobj(certificate, file)
    stage.replace("trusted.new", TRUSTED, quiet=len(authorities) == 1 and authorities[0] == "old")


def _loaded(stage: Stage, times: int) -> None:
    """Wait until each listener of each node has said so often that it loaded something new."""
    changes = LISTENERS * times
    stage.until(
        "the nodes have loaded it",
        lambda: all(stage.nodes[id_].text().count("tls.certificate-changed") >= changes for id_ in NODES),
        12,
    )


def _clients_come_again(stage: Stage) -> None:
    """Clients connect anew, with what their files say now."""
    assert stage.traffic is not None
    stage.traffic.change(stage.bootstrap, stage.security)
    stage.flowing()
