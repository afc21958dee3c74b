"""The sender of a request to the quorum over the network, and how the answer gets back.

The core answers in its own words; a `Caller` turns them into the message that was asked for, and reads
what belongs to it (records, a piece of a snapshot) from the disk at that moment.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.raft.messages import FetchResponse, FetchSnapshotResponse, ReadSnapshot, Request, Response
from barnabas.raft.value import altered
from barnabas.server.kraft.codec.answering import request_in, response_out
from barnabas.server.kraft.transfer import read_log
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message

if TYPE_CHECKING:
    from barnabas.server.kraft.storage import MetadataStore

__all__ = ["Caller"]

SPOILED = events.register(
    "quorum.snapshot-spoiled",
    logging.ERROR,
    "the disk changed a snapshot; the node does not send it, and writes another",
)


class Caller:
    """One request to the quorum.  `future` gets the answer."""

    __slots__ = ("_listener", "_request", "_version", "by", "future")

    def __init__(
        self, future: asyncio.Future[Message], request: Message, version: int, listener: str
    ) -> None:
        self.future = future
        self.by = ""
        """Who asks, for the history."""
        self._request = request
        self._version = version
        self._listener = listener

    def __repr__(self) -> str:
        return f"<Caller {self._request.NAME} v{self._version}>"

    def asked(self) -> Request:
        """The request in the core's words.  Raises KafkaError INVALID_REQUEST."""
        return request_in(self._request, self._version, self._listener)

    def answer(self, response: Response, store: MetadataStore) -> None:
        """The core's answer.  Raises StorageError when our own log cannot be trusted."""
        if self.future.done():
            return
        data = b""
        if isinstance(response, FetchResponse) and response.read is not None:
            data = read_log(store.log, response.read)
        elif isinstance(response, FetchSnapshotResponse) and response.read is not None:
            self._piece(response, response.read, store)
            return
        self._end(response, data)

    def _piece(self, response: FetchSnapshotResponse, wanted: ReadSnapshot, store: MetadataStore) -> None:
        known = dict(store.bad_snapshots)

        def give(data: bytes | None) -> None:
            for at in [at for at in store.bad_snapshots if at not in known]:
                events.emit(SPOILED, snapshot=at, why=store.bad_snapshots[at], directory=store.path)
            if self.future.done():
                return
            if data is None:
                self._end(altered(response, error=ErrorCode.SNAPSHOT_NOT_FOUND), b"")
            else:
                self._end(response, data)

        store.give_piece(wanted, give)

    def _end(self, response: Response, data: bytes) -> None:
        self.future.set_result(response_out(response, self._request, self._version, self._listener, data))
