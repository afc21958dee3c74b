"""A controller that waits for a cluster, as its listener shows it: it takes the one request that begins one.

Anything else that is asked ends the connection, so nobody takes this node for a controller of a quorum.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from barnabas.config import Config
from barnabas.errors import BarnabasError, ConfigError, ErrorCode, WireError
from barnabas.server.net.bind import bind
from barnabas.settings.table_access import ANONYMOUS, super_users
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.frame import RequestHeader, read_request_header, write_response
from barnabas.wire.schemas.cluster import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.schemas.own import BootstrapQuorumRequest, BootstrapQuorumResponse

__all__ = ["AwaitingBootstrap"]

LARGEST_FRAME = 4096
PATIENCE_S = 10.0
"""Seconds for which a connection may stay silent."""


def _open_to_all(config: Config) -> bool:
    """Whether whoever reaches a node without a cluster may begin one: it takes no login, and has no ACLs."""
    controllers = config.controller_listeners
    if controllers and not config.is_open(controllers[0].listener):
        return False
    authorizer = config.optional_str("authorizer.class.name")
    return not authorizer or ANONYMOUS in super_users(config.optional_str("super.users") or "")


class AwaitingBootstrap:
    """`async with AwaitingBootstrap(config, begin) as awaiting: await awaiting.done.wait()`.

    `begin(cluster_id)` formats this node and returns the cluster's id; a BarnabasError it raises is the answer.
    """

    def __init__(self, config: Config, begin: Callable[[str | None], Awaitable[str]]) -> None:
        self._config = config
        self._begin = begin
        self._servers: list[asyncio.Server] = []
        self._asked = asyncio.Lock()
        self.done = asyncio.Event()
        """This node began a cluster."""

    def __repr__(self) -> str:
        return f"<AwaitingBootstrap done={self.done.is_set()}>"

    async def __aenter__(self) -> AwaitingBootstrap:
        endpoints = self._config.controller_listeners
        for bound in bind(endpoints[0]) if endpoints else ():
            self._servers.append(await asyncio.start_server(self._serve, sock=bound))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for server in self._servers:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError, WireError):
            while True:
                size = int.from_bytes(await asyncio.wait_for(reader.readexactly(4), PATIENCE_S), "big")
                if size > LARGEST_FRAME:
                    break
                frame = await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)
                header, position = read_request_header(frame)
                answer = await self._answer(header, frame, position)
                if answer is None:
                    break
                unknown = (
                    isinstance(answer, ApiVersionsResponse) and answer.error_code
                )  # answered in version 0
                version = 0 if unknown else header.version
                parts: list[Any] = []
                write_response(parts, header.correlation_id, header.api_key, version, answer)
                writer.write(b"".join(map(bytes, parts)))
                await writer.drain()
        writer.close()

    async def _answer(self, header: RequestHeader, frame: bytes, position: int) -> Message | None:
        if header.api_key == ApiVersionsRequest.KEY:
            served = [ApiVersionsRequest, BootstrapQuorumRequest]
            keys = [
                ApiVersion(api_key=kind.KEY or 0, min_version=kind.VERSIONS[0], max_version=kind.VERSIONS[1])
                for kind in served
            ]
            known = header.version <= ApiVersionsRequest.VERSIONS[1]
            code = ErrorCode.NONE if known else ErrorCode.UNSUPPORTED_VERSION  # KIP-511
            return ApiVersionsResponse(error_code=int(code), api_keys=keys)
        if (header.api_key, header.version) != (BootstrapQuorumRequest.KEY, 0):
            return None
        request, _ = decode(BootstrapQuorumRequest, memoryview(frame), 0, position)
        if not _open_to_all(self._config):
            return BootstrapQuorumResponse(
                error_code=int(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
                error_message="nobody can say here yet who they are, and not everybody may begin a cluster "
                "(next: `barnabas storage format --standalone` at this node)",
                node_id=self._config.node_id,
            )
        return await self._bootstrap(request)

    async def _bootstrap(self, request: BootstrapQuorumRequest) -> BootstrapQuorumResponse:
        node = self._config.node_id
        async with self._asked:
            if self.done.is_set():
                return BootstrapQuorumResponse(
                    error_code=int(ErrorCode.INVALID_REQUEST), error_message="it has just begun", node_id=node
                )
            try:
                made = await self._begin(request.cluster_id)
            except BarnabasError as error:
                code = (
                    ErrorCode.INVALID_REQUEST
                    if isinstance(error, ConfigError)
                    else ErrorCode.UNKNOWN_SERVER_ERROR
                )
                why = error.message + (f" (next: {error.next_step})" if error.next_step else "")
                return BootstrapQuorumResponse(error_code=int(code), error_message=why, node_id=node)
            self.done.set()
            return BootstrapQuorumResponse(cluster_id=made, node_id=node)
