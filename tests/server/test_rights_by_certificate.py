"""Rights of those whose certificate says who they are: the nodes, an administrator, a user with one right."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from tests.client.certificates import Authority
from tests.server.secured import acl

from barnabas.client.aio import AsyncConnection
from barnabas.client.security.options import Security
from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.security.acl import Operation, ResourceType
from barnabas.server.node.process import ServerNode
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.wire.schemas.acls import CreateAclsRequest
from barnabas.wire.schemas.cluster import MetadataRequest
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest


def settings_of(authority: Authority, tmp_path: Path, **changes: str) -> dict[str, str]:
    return {
        "listeners": "SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:SSL",
        "ssl.keystore.location": str(authority.issue("node")),
        "ssl.truststore.location": str(authority.ca),
        "ssl.client.auth": "required",
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:CN=node;User:CN=admin",
        "log.dirs": str(tmp_path / "data"),
        **changes,
    }


def test_nodes_and_users_have_the_rights_of_their_certificates(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    settings = settings_of(authority, tmp_path)

    async def login(node: ServerNode, name: str) -> Any:
        security = Security.parse(
            {
                "security.protocol": "SSL",
                "ssl.ca.location": str(authority.ca),
                "ssl.keystore.location": str(authority.issue(name)),
            }
        )
        return await AsyncConnection.connect(*node.address, security=security)

    def create(name: str) -> CreateTopicsRequest:
        row = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        return CreateTopicsRequest(topics=[row], timeout_ms=5000)

    async def main() -> None:
        async with ServerNode(Config.load(settings)) as node:
            admin, alice = await login(node, "admin"), await login(node, "alice")
            right = acl("CN=alice", Operation.CREATE, ResourceType.TOPIC, "hers")
            made = await admin.request(CreateAclsRequest(creations=[right]))
            assert made.results[0].error_code == 0
            assert (await alice.request(create("hers"))).topics[0].error_code == 0
            denied = await alice.request(create("other"))
            assert denied.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            assert (await alice.request(MetadataRequest(topics=None))).topics == []
            assert [t.name for t in (await admin.request(MetadataRequest(topics=None))).topics] == ["hers"]
            for connection in (admin, alice):
                await connection.close()

    asyncio.run(main())


def test_cve_2023_47090_who_does_not_say_who_it_is_has_no_rights(tmp_path: Path) -> None:
    """Where a certificate is asked for and need not be shown, nobody gets a user's rights without one."""
    authority = Authority(tmp_path)
    settings = settings_of(authority, tmp_path, **{"ssl.client.auth": "requested"})
    nobody = Security.parse({"security.protocol": "SSL", "ssl.ca.location": str(authority.ca)})

    async def main() -> None:
        async with ServerNode(Config.load(settings)) as node:
            connection: Any = await AsyncConnection.connect(*node.address, security=nobody)
            row = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
            made = await connection.request(CreateTopicsRequest(topics=[row], timeout_ms=5000))
            assert made.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            right = acl("ANONYMOUS", Operation.CREATE, ResourceType.TOPIC, "t")
            granted = await connection.request(CreateAclsRequest(creations=[right]))
            assert granted.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
            await connection.close()

    asyncio.run(main())
