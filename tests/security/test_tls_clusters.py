"""Three nodes that know each other by certificates, or by passwords over TLS, form a cluster and replicate."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.patience import PATIENCE_S

from barnabas.aio import Consumer, Producer
from barnabas.cli.main import main
from barnabas.client.aio import AsyncConnection
from barnabas.client.security.options import Security
from barnabas.config import Config
from barnabas.server.node.process import ServerNode
from barnabas.testing.cluster import free_ports
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

NODES = (1, 2, 3)
CLUSTER = "5L6g3nShT-eMCtK--X86sw"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
"""Among controllers: users are in the metadata, and these controllers have to agree on that first."""


class SecuredCluster:
    """Settings of three nodes; `protocol` is what every listener speaks."""

    def __init__(self, folder: Path, protocol: str) -> None:
        self.authority = Authority(folder / "certificates")
        self.protocol = protocol
        first = free_ports(6)
        ports = list(range(first, first + 6))
        self.clients, controllers = ports[:3], ports[3:]
        voters = ",".join(f"{id_}@127.0.0.1:{port}" for id_, port in zip(NODES, controllers, strict=True))
        login = 'username="node" password="between-nodes"'
        self.settings: dict[int, dict[str, str]] = {}
        for id_, client, controller in zip(NODES, self.clients, controllers, strict=True):
            settings = self.settings[id_] = {
                "process.roles": "broker,controller",
                "node.id": str(id_),
                "listeners": f"CLIENTS://127.0.0.1:{client},CONTROLLER://127.0.0.1:{controller}",
                "listener.security.protocol.map": f"CLIENTS:{protocol},CONTROLLER:{protocol}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": str(folder / f"data{id_}"),
                "ssl.keystore.location": str(self.authority.issue(f"node{id_}")),
                "ssl.truststore.location": str(self.authority.ca),
                "barnabas.fast.fencing": "false",
            }
            if protocol == "SSL":
                settings["ssl.client.auth"] = "required"
            settings["listener.name.clients.scram-sha-512.sasl.jaas.config"] = f"{SCRAM} required {login};"
            settings["listener.name.controller.sasl.enabled.mechanisms"] = "PLAIN"
            settings["sasl.mechanism.controller.protocol"] = "PLAIN"
            users = 'user_node="between-nodes"'
            settings["listener.name.controller.plain.sasl.jaas.config"] = f"{PLAIN} required {login} {users};"
            properties = folder / f"{id_}.properties"
            properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
            user = ["--add-scram", "SCRAM-SHA-512=[name=node,password=between-nodes]"]
            formatted = ["storage", "format", "-t", CLUSTER, "-c", str(properties)]
            assert main(formatted + (user if protocol == "SASL_SSL" else [])) == 0

    @property
    def security(self) -> dict[str, str]:
        """What a client shows."""
        trust = {"security.protocol": self.protocol, "ssl.ca.location": str(self.authority.ca)}
        if self.protocol == "SSL":
            return trust | {"ssl.keystore.location": str(self.authority.issue("ada"))}
        password = {"sasl.username": "node", "sasl.password": "between-nodes"}
        return trust | {"sasl.mechanism": "SCRAM-SHA-512"} | password

    def node(self, id_: int, **changes: str) -> ServerNode:
        return ServerNode(Config.load(self.settings[id_] | changes))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[dict[int, ServerNode]]:
        nodes = {id_: self.node(id_) for id_ in NODES}
        try:
            async with asyncio.timeout(PATIENCE_S):
                await asyncio.gather(*(node.start() for node in nodes.values()))
            yield nodes
        finally:
            await asyncio.gather(*(node.stop() for node in nodes.values()))

    async def create(self, topic: str) -> None:
        port = self.clients[0]
        async with await AsyncConnection.connect(
            "127.0.0.1", port, security=Security.parse(self.security)
        ) as connection:
            wanted = CreatableTopic(name=topic, num_partitions=3, replication_factor=3)
            answer = await connection.request(CreateTopicsRequest(topics=[wanted]))
        assert answer.topics[0].error_code == 0, answer

    async def both_ways(self, topic: str, count: int) -> None:
        where = ",".join(f"127.0.0.1:{port}" for port in self.clients)
        async with Producer(where, security=self.security) as producer:
            for number in range(count):
                await producer.send(topic, b"%d" % number)
        async with Consumer(where, topic, security=self.security, start="earliest", idle=0.5) as consumer:
            found = [int(message.value or b"") async for message in consumer]
        assert sorted(found) == list(range(count))


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_three_nodes_form_a_cluster_and_replicate(protocol: str, tmp_path: Path) -> None:
    cluster = SecuredCluster(tmp_path, protocol)

    async def story() -> None:
        async with cluster.running() as nodes:
            await cluster.create("t")
            await cluster.both_ways("t", 300)
            for node in nodes.values():
                assert node.quorum is not None and node.connections is not None
                partitions = node.quorum.image.topics_by_name["t"].partitions
                assert all(sorted(p.isr) == [1, 2, 3] for p in partitions.values())
                who = {c.client.principal for c in node.connections.opened.values()}
                assert "User:ANONYMOUS" not in who
                own = {f"User:CN=node{id_}" for id_ in NODES} if protocol == "SSL" else {"User:node"}
                assert who & own, who

    asyncio.run(story())


def test_a_node_that_others_do_not_believe_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cluster = SecuredCluster(tmp_path, "SSL")
    stranger = Authority(tmp_path / "strangers", "another authority").issue("node1")

    async def story() -> None:
        node = cluster.node(1, **{"ssl.keystore.location": str(stranger)})
        other = cluster.node(2)
        tasks = [asyncio.ensure_future(one.start()) for one in (node, other)]
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not told(caplog, "node.not-believed") or not told(caplog, "tls.refused"):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    said = told(caplog, "node.not-believed")
    assert any("certificate" in str(fields["error"]) and fields["next"] for fields in said), said


def told(caplog: pytest.LogCaptureFixture, event: str) -> list[dict[str, Any]]:
    """The fields of each line of an event."""
    lines = [record.__dict__ for record in caplog.records]
    return [line["fields"] for line in lines if line.get("event") == event]
