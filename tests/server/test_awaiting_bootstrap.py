"""A controller without a cluster, which waits to be told to begin one."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import Any

from barnabas.config import Config
from barnabas.errors import ErrorCode
from barnabas.server.node.awaiting_bootstrap import AwaitingBootstrap
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import read_response_header
from barnabas.wire.schemas.cluster import ApiVersionsRequest, ApiVersionsResponse

API_VERSIONS = 18


def test_a_tool_of_a_later_release_is_told_which_versions_of_api_versions_there_are() -> None:
    """KIP-511: the answer is in version 0; a connection that ends instead would say nothing."""

    async def begin(cluster_id: str | None) -> str:
        raise AssertionError(cluster_id)

    async def asked(version: int) -> Any:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        config = Config.load(
            {
                "process.roles": "controller",
                "node.id": "1",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://127.0.0.1:{port}",
                "controller.quorum.bootstrap.servers": f"127.0.0.1:{port}",
            }
        )
        async with AwaitingBootstrap(config, begin):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(struct.pack(">ihhihB", 11, API_VERSIONS, version, 4, -1, 0))
            frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
            writer.close()
        correlation_id, position = read_response_header(memoryview(frame), API_VERSIONS, 0)
        assert correlation_id == 4
        answer, _ = decode(ApiVersionsResponse, memoryview(frame), 0, position)
        return answer

    answer = asyncio.run(asked(99))
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    ranges = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert ranges[API_VERSIONS] == ApiVersionsRequest.VERSIONS
    assert asyncio.run(asked(0)).error_code == ErrorCode.NONE
