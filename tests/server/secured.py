"""A real node with an authorizer, whose clients are who they say they are: client id `as-alice` is User:alice.

How a client proves who it is has tests of its own; here is asked what it may do then.  Whoever says nothing is
User:ANONYMOUS, a super user here, as are the nodes among themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.client.aio import AsyncConnection
from barnabas.config import Config
from barnabas.security.acl import Operation, PatternType, Permission, ResourceType
from barnabas.server.net.context import RequestContext
from barnabas.server.node.process import ServerNode
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing.cluster import free_ports
from barnabas.wire.schemas.acls import AclCreation, CreateAclsRequest

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": "User:ANONYMOUS;User:root",
    "group.initial.rebalance.delay.ms": "0",
}


class Secured:
    """The node, and connections to it."""

    def __init__(self, node: ServerNode) -> None:
        self.node = node
        self._connections: list[AsyncConnection] = []

    async def login(self, user: str = "", *, controller: bool = False) -> AsyncConnection:
        """A connection of User:`user`; "": of a super user."""
        client_id = f"as-{user}" if user else "super"
        address = self.node.address
        if controller:
            endpoint = next(x.endpoint for x in self.node.listeners if x.kind == "C")
            address = ("127.0.0.1", endpoint.port)
        connection = await AsyncConnection.connect(*address, client_id=client_id)
        self._connections.append(connection)
        return connection

    async def allow(self, user: str, operation: Operation, resource: ResourceType, name: str) -> None:
        """One ACL more."""
        await self.create(acl(user, operation, resource, name))

    async def create(self, *acls: AclCreation) -> None:
        connection = await self.login()
        answer: Any = await connection.request(CreateAclsRequest(creations=list(acls)))
        assert [result.error_code for result in answer.results] == [0] * len(acls)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


def acl(
    user: str,
    operation: Operation,
    resource: ResourceType,
    name: str,
    *,
    pattern: PatternType = PatternType.LITERAL,
    permission: Permission = Permission.ALLOW,
    host: str = "*",
) -> AclCreation:
    return AclCreation(
        resource_type=resource,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=f"User:{user}",
        host=host,
        operation=operation,
        permission_type=permission,
    )


def _said(context: RequestContext) -> str:
    client_id = context.client_id or ""
    return f"User:{client_id[3:]}" if client_id.startswith("as-") else context.client.principal


def run_secured(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[Secured], Awaitable[None]],
    **settings: str,
) -> None:
    """Run a scenario with a secured node."""
    monkeypatch.setattr(RequestContext, "principal", property(_said))

    async def main() -> None:
        changes = {name.replace("_", "."): value for name, value in settings.items()}
        config = Config.load({**SETTINGS, "log.dirs": str(folder / "data"), **changes})
        async with ServerNode(config) as node:
            secured = Secured(node)
            try:
                await scenario(secured)
            finally:
                await secured.close()

    asyncio.run(main())


def run_apart(
    folder: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Secured], Awaitable[None]]
) -> None:
    """Run a scenario at a broker whose controller is a node of its own: what it forwards travels in envelopes."""
    monkeypatch.setattr(RequestContext, "principal", property(_said))
    port = free_ports(1)
    common = {**SETTINGS, "controller.quorum.voters": f"1@127.0.0.1:{port}"}
    controller = {
        **common,
        "process.roles": "controller",
        "node.id": "1",
        "listeners": f"CONTROLLER://127.0.0.1:{port}",
        "log.dirs": str(folder / "one"),
    }
    broker = {
        **common,
        "process.roles": "broker",
        "node.id": "2",
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": str(folder / "two"),
    }
    for number, settings in enumerate((controller, broker)):
        properties = folder / f"{number}.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        assert main(["storage", "format", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(properties)]) == 0

    async def whole() -> None:
        async with ServerNode(Config.load(controller)), ServerNode(Config.load(broker)) as node:
            secured = Secured(node)
            try:
                await scenario(secured)
            finally:
                await secured.close()

    asyncio.run(whole())
