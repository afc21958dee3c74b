"""Nodes that speak in clear get SASL_SSL for clients and certificates among themselves, one restart at a time."""

from __future__ import annotations

import os
from collections.abc import Mapping

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]

NODES = (1, 2, 3)
SECURE = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
    "CLIENTS:SASL_SSL,NODES:SSL,QUORUM:SSL",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "ssl.truststore.location": "certs/ca.pem",
    "listener.name.nodes.ssl.client.auth": "required",
    "listener.name.quorum.ssl.client.auth": "required",
}


def play(stage: Stage) -> None:
    from barnabas.testing.cluster import free_ports

    stage.form(*NODES, roles="broker,controller", min_insync_replicas="2")
    stage.flow(3, 3, NODES)
    plain = {id_: _plain(stage, id_) for id_ in NODES}
    ports = {id_: free_ports(3) for id_ in NODES}
    secure = {
        id_: f"CLIENTS://127.0.0.1:{port},NODES://127.0.0.1:{port + 1},QUORUM://127.0.0.1:{port + 2}"
        for id_, port in ports.items()
    }
    quorum = ",".join(f"127.0.0.1:{port + 2}" for port in ports.values())
    stage.why("An authority, a certificate for each node, and a user for the clients.")
    stage.type("certs init certs")
    for id_ in NODES:
        stage.type(f"certs issue certs node{id_} --host localhost,127.0.0.1", quiet=id_ > 1)
    security = _user(stage)

    stage.why("Round 1: listeners with TLS beside those without. Nobody uses them yet.")
    for id_ in NODES:
        _restart(
            stage,
            id_,
            {
                **SECURE,
                "listeners": f"{plain[id_]},{secure[id_]}",
                "ssl.keystore.location": f"certs/node{id_}.pem",
                "inter.broker.listener.name": "PLAINTEXT",
                "controller.listener.names": "CONTROLLER,QUORUM",
            },
        )
    stage.until("the voters have both listeners", lambda: _reached_by(stage, "CONTROLLER", "QUORUM"))
    stage.type("quorum describe --detail")

    stage.why("The clients go to the new listener; the old one still serves those that have not.")
    traffic = stage.traffic
    assert traffic is not None
    stage.security = security
    for id_ in NODES:
        stage.nodes[id_].port, stage.nodes[id_].security = ports[id_], security
    traffic.change(stage.bootstrap, security)
    stage.flowing()

    stage.why("Round 2: the nodes dial each other with certificates.")
    for id_ in NODES:
        _restart(
            stage,
            id_,
            {
                "inter.broker.listener.name": "NODES",
                "controller.listener.names": "QUORUM,CONTROLLER",
                "controller.quorum.bootstrap.servers": quorum,
            },
        )
    stage.flowing()

    stage.why("Round 3: the listeners in clear go.")
    for id_ in NODES:
        _restart(stage, id_, {"listeners": secure[id_], "controller.listener.names": "QUORUM"})
    stage.until("the voters have the one listener", lambda: _reached_by(stage, "QUORUM"))
    stage.type("quorum describe --status --command-config app.properties")
    stage.why("Who does not log in gets nothing.")
    stage.type("topics list --timeout 3", code=3, shows="error")
    stage.flowing()


def _plain(stage: Stage, id_: int) -> str:
    node = stage.nodes[id_]
    return f"PLAINTEXT://127.0.0.1:{node.port},CONTROLLER://127.0.0.1:{node.controller_port}"


def _user(stage: Stage) -> dict[str, str]:
    """A user `app`, and what it logs in with."""
    password = "correct horse battery staple"
    _write(stage, "app.password", password + "\n")
    stage.type("users add app --password-file app.password")
    security = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "app",
        "sasl.password": password,
        "ssl.ca.location": os.path.join(stage.directory, "certs", "ca.pem"),
    }
    _write(stage, "app.properties", "".join(f"{name}={value}\n" for name, value in security.items()))
    return security


def _write(stage: Stage, name: str, text: str) -> None:
    with open(os.path.join(stage.directory, name), "w", encoding="utf-8") as file:
        file.write(text)


def _restart(stage: Stage, id_: int, settings: Mapping[str, str]) -> None:
    """A clean stop and a start with other settings; the next node's turn comes when all replicas are in sync."""
    node = stage.nodes[id_]
    node.settings |= settings
    node.write()
    stage.stop(id_)
    stage.start(id_)
    stage.until("all replicas are in sync", stage.whole)


def _reached_by(stage: Stage, *listeners: str) -> bool:
    """Whether the committed set has exactly these listeners of each voter."""
    return all(
        {endpoint.partition("://")[0] for endpoint in voter.endpoints} == set(listeners)
        for voter in stage.quorum().voters
    )
