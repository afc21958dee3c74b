"""The client on asyncio: the same machines without sockets, driven by an event loop instead of threads.

`connection` is one connection; `cluster` knows where the leaders are; `producer` and `consumer` stand on both.
"""

from __future__ import annotations

from barnabas.client.aio.connection import AsyncConnection

__all__ = ["AsyncConnection"]
