"""A connection on a blocking socket: what Spark's workers, the command line and scripts use.

Every wait has a deadline, and every failure says which address, what happened and what to try.  Requests
may be posted ahead and collected later, so that the next fetch travels while the caller works.  One
thread at a time.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, cast

from barnabas.client.connection import (
    DEFAULT_MAX_FRAME,
    Connection,
    ConnectionFailed,
    Meant,
    RequestTimedOut,
    Response,
    Sent,
)
from barnabas.client.security.options import PLAINTEXT, Security, why_ended
from barnabas.client.waits.clock import monotonic
from barnabas.client.waits.forks import check_process, forks
from barnabas.client.waits.silence import counted_out, patience
from barnabas.errors import BarnabasError, WireError
from barnabas.wire.codec.message import Message

__all__ = ["BlockingConnection", "ConnectionFailed", "FrameBuffers", "RequestTimedOut"]

_MAX_PARTS = 512  # buffers per sendmsg; systems allow at least 1,024 (IOV_MAX)
_SMALL = 256 << 10
"""Smaller ones are as cheap anew."""
_KEPT = 2
"""One whose records are looked at, one that is received."""

IsOut = Callable[[str, int], bool]
"""`is_out(host, port)`: whether another broker says that the silent one at this address is out."""
Self = TypeVar("Self", bound="BlockingConnection")


class BlockingConnection:
    """`BlockingConnection("127.0.0.1", 9092).request(MetadataRequest())` -> MetadataResponse.

    Connects and negotiates versions at construction.  `timeout` (seconds) bounds each request,
    `connect_timeout` the connecting with its negotiation and login.  Raises ConnectionFailed, and
    AuthenticationFailed where `security` asks for TLS or a login.  `is_out` is asked again and again while the
    broker is silent; once it says yes, the connection is closed (RequestTimedOut).  KafkaError
    REBOOTSTRAP_REQUIRED if another node than the one `meant` listens there.
    """

    __slots__ = (
        "_answers",
        "_buffers",
        "_core",
        "_forgotten",
        "_is_out",
        "_looks",
        "_made",
        "_renew_at",
        "_security",
        "_socket",
        "address",
        "host",
        "port",
        "timeout",
    )

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str = "barnabas",
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        max_frame: int = DEFAULT_MAX_FRAME,
        security: Security = PLAINTEXT,
        is_out: IsOut | None = None,
        meant: Meant | None = None,
    ) -> None:
        self.host = host
        self.port = port
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.timeout = timeout
        self._core = Connection(client_id, max_frame, meant=meant, address=self.address)
        self._answers: dict[int, Response] = {}
        self._forgotten: set[int] = set()
        self._buffers: FrameBuffers | None = None
        self._security = security
        self._is_out = is_out
        self._looks = 0
        self._made = forks()
        self._renew_at = float("inf")
        self._socket: socket.socket | None = None
        deadline = monotonic() + connect_timeout
        self._socket = self._connect(connect_timeout, deadline)
        try:
            sent = self._core.negotiate()
            while sent is not None:
                self._write(sent, deadline)
                sent = self._core.negotiate(self._read_until(sent.correlation_id, deadline))
            self._log_in(deadline)
        except BaseException:
            self.close()
            raise

    def __repr__(self) -> str:
        return f"<BlockingConnection {self.address} {'closed' if self.closed else self._core!r}>"

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def closed(self) -> bool:
        """Whether the connection is of no more use (closed by us, or after a failure)."""
        return self._socket is None

    def version_of(self, request: type[Message] | Message) -> int:
        """`connection.version_of(FetchRequest)` -> the version that `request` will be sent in."""
        return self._core.version_of(request)

    def serves(self, request: type[Message]) -> bool:
        """`connection.serves(DescribeQuorumRequest)`: whether the broker serves this API at all."""
        return self._core.serves(request)

    @property
    def finalized(self) -> dict[str, int]:
        """`connection.finalized["transaction.version"]`: the features on which the cluster has agreed."""
        return self._core.finalized

    def fileno(self) -> int:
        """`select([connection], [], [])`: the socket's descriptor."""
        return self._open().fileno()

    # -- one round trip, or several under way ----------------------------------------------------

    def request(self, message: Message, version: int | None = None, timeout: float | None = None) -> Any:
        """`connection.request(MetadataRequest())` -> its response; waits at most `timeout` seconds."""
        return self.collect(self.post(message, version, timeout=timeout), timeout)

    def post(
        self,
        message: Message,
        version: int | None = None,
        *,
        silent: bool = False,
        timeout: float | None = None,
    ) -> int:
        """`ticket = connection.post(fetch)`: send without waiting for the answer; `collect(ticket)` later."""
        self._open()
        deadline = monotonic() + (self.timeout if timeout is None else timeout)
        if monotonic() >= self._renew_at:
            self._log_in(deadline)
        sent = self._core.send(message, version, silent=silent)
        self._write(sent, deadline)
        return sent.correlation_id

    def collect(self, ticket: int, timeout: float | None = None) -> Any:
        """`connection.collect(ticket)` -> the response message of a posted request."""
        if (answer := self._answers.pop(ticket, None)) is not None:
            return answer.message
        return self._read_until(ticket, monotonic() + (self.timeout if timeout is None else timeout)).message

    def forget(self, ticket: int) -> None:
        """`connection.forget(ticket)`: its answer will not be collected; drop it when it comes."""
        if self._answers.pop(ticket, None) is None:
            self._forgotten.add(ticket)

    def has_arrived(self, ticket: int) -> bool:
        """`connection.has_arrived(ticket)`: its answer, or a part of it, was read already with another one.

        The socket says nothing of it then.
        """
        return ticket in self._answers or self._read_ahead()

    def _read_ahead(self) -> bool:
        """Whether TLS holds bytes that were read from the socket already."""
        if self._security.tls is None or self._socket is None:
            return False
        return int(cast(Any, self._socket).pending()) > 0

    def reuse_memory(self) -> None:
        """`connection.reuse_memory()`: from now on large answers come in memory that is kept and used again."""
        if self._buffers is None:
            self._buffers = FrameBuffers()

    def close(self) -> None:
        """`connection.close()`: close the socket; answers under way are lost."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # -- the socket ------------------------------------------------------------------------------

    def _open(self) -> socket.socket:
        check_process(self._made)
        if self._socket is None:
            raise ConnectionFailed(f"the connection to {self.address} is closed", address=self.address)
        return self._socket

    def _turn(self, deadline: float) -> float:
        """Return the seconds that a call on the socket may take before its silence is looked into."""
        left = deadline - monotonic()
        if left <= 0:
            raise TimeoutError
        return left if self._is_out is None else min(left, patience(self._looks))

    def _look_into_silence(self, deadline: float) -> None:
        """Raise TimeoutError at the deadline, RequestTimedOut if another broker counts this one out."""
        self._turn(deadline)
        self._looks += 1
        if self._is_out is not None and self._is_out(self.host, self.port):
            self.close()
            raise counted_out(self.address)

    def _connect(self, timeout: float, deadline: float) -> socket.socket:
        try:
            while True:
                try:
                    sock = socket.create_connection((self.host, self.port), self._turn(deadline))
                    break
                except TimeoutError:
                    self._look_into_silence(deadline)
        except socket.gaierror as error:
            raise ConnectionFailed(
                f"cannot find the host of {self.address}: {error.strerror}",
                address=self.address,
                next_step="check the name, or give the address in digits",
            ) from error
        except TimeoutError as error:
            raise ConnectionFailed(
                f"no answer from {self.address} in {timeout:g} s",
                address=self.address,
                next_step="check that host and port are right and no firewall drops the packets",
                silent=True,
            ) from error
        except OSError as error:
            raise ConnectionFailed(
                f"cannot connect to {self.address}: {error.strerror or error}",
                address=self.address,
            ) from error
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock if self._security.tls is None else self._in_tls(sock, deadline)

    def _in_tls(self, sock: socket.socket, deadline: float) -> socket.socket:
        from barnabas.client.security.access import tls_context
        from barnabas.client.security.tls import failure_in_words

        try:
            context = tls_context(self._security)
            assert context is not None
            secured = context.wrap_socket(sock, server_hostname=self.host, do_handshake_on_connect=False)
            while True:
                try:
                    secured.settimeout(self._turn(deadline))
                    secured.do_handshake()
                    return secured
                except TimeoutError:
                    self._look_into_silence(deadline)
        except TimeoutError as error:
            sock.close()
            raise ConnectionFailed(
                f"{self.address} does not finish the TLS handshake",
                address=self.address,
                next_step="check that this is a TLS listener, and that the node is not overloaded",
                silent=True,
            ) from error
        except OSError as error:
            sock.close()
            raise failure_in_words(error, self.address, self.host) or self._failed(error, "TLS") from error
        except BaseException:
            sock.close()
            raise

    def _log_in(self, deadline: float) -> None:
        """Say who we are, where that is asked for: at the beginning, and before the session is over."""
        if self._security.sasl is None:
            return
        from barnabas.client.security.access import login_at, renew_after

        try:
            login = login_at(self._security, self.address)
            assert login is not None
            request: Message | None = login.begin()
            while request is not None:
                sent = self._core.send(request)
                self._write(sent, deadline)
                request = login.take(self._read_until(sent.correlation_id, deadline).message)
        except BaseException:
            self.close()
            raise
        self._renew_at = renew_after(login, monotonic())

    def _write(self, sent: Sent, deadline: float) -> None:
        sock = self._open()
        pending = [memoryview(part) for part in sent.parts if len(part)]
        if self._security.tls is not None:
            pending = [memoryview(b"".join(pending))]  # (it has no sendmsg, and a record each would be dear)
        try:
            while pending:
                try:
                    sock.settimeout(self._turn(deadline))
                    if self._security.tls is None:
                        count = sock.sendmsg(pending[:_MAX_PARTS])
                    else:
                        count = sock.send(pending[0])
                except TimeoutError:
                    self._look_into_silence(deadline)
                    continue
                while pending and count >= len(pending[0]):
                    count -= len(pending.pop(0))
                if count:
                    pending[0] = pending[0][count:]
        except OSError as error:
            raise self._failed(error, "sending") from error

    def _read_until(self, ticket: int, deadline: float) -> Response:
        while True:
            try:
                answer = self._core.receive_frame(self._read_frame(deadline))
            except WireError:
                self.close()
                raise
            if answer.correlation_id == ticket:
                return answer
            if answer.correlation_id in self._forgotten:
                self._forgotten.discard(answer.correlation_id)
            else:
                self._answers[answer.correlation_id] = answer

    def _read_frame(self, deadline: float) -> memoryview:
        """One whole frame in memory that stays as it is while record views look at it."""
        prefix = bytearray(4)
        self._read_into(memoryview(prefix), deadline)
        size = self._core.frame_size(prefix)
        frame = memoryview(bytearray(size)) if self._buffers is None else self._buffers.take(size)
        self._read_into(frame, deadline)
        return frame

    def _read_into(self, view: memoryview, deadline: float) -> None:
        sock = self._open()
        got = 0
        try:
            while got < len(view):
                try:
                    sock.settimeout(self._turn(deadline))
                    count = sock.recv_into(view[got:])
                except TimeoutError:
                    self._look_into_silence(deadline)
                    continue
                if count == 0:
                    raise ConnectionResetError("closed by the broker")
                got += count
                self._looks = 0
        except OSError as error:
            raise self._failed(error, "waiting for an answer") from error

    def _failed(self, error: OSError, doing: str) -> BarnabasError:
        self.close()
        if self._security.tls is not None:
            from barnabas.client.security.tls import refusal_in_words

            if said := refusal_in_words(error, self.address):
                return said
        if isinstance(error, TimeoutError):
            return RequestTimedOut(
                f"{self.address} did not answer in time ({doing})",
                address=self.address,
                next_step="check that the node is alive and not overloaded; then check whether the request "
                "was carried out before repeating it",
            )
        reason = "the broker closed the connection" if isinstance(error, ConnectionError) else str(error)
        return ConnectionFailed(
            f"{self.address}: {reason} ({doing})",
            address=self.address,
            next_step=why_ended(self._security),
        )


class FrameBuffers:
    """`FrameBuffers().take(20_000_000)` -> a buffer of that size with anything in it.

    Who fetches 16 MiB at a time would get new memory for each answer, which the system clears page by page: more
    work than receiving it.  A buffer is used again once nobody looks at what is in it.
    """

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def __repr__(self) -> str:
        return f"<FrameBuffers {[len(buffer) for buffer in self._buffers]}>"

    def take(self, size: int) -> memoryview:
        """Exactly so many bytes.  Its views, and whatever was made of them, keep it from being used again."""
        if size < _SMALL:
            return memoryview(bytearray(size))
        for index in range(len(self._buffers)):
            if len(self._buffers[index]) >= size and _references(self._buffers, index) == _UNSEEN:
                return memoryview(self._buffers[index])[:size]
        found = bytearray(size + size // 16)
        self._buffers = [*self._buffers, found][-_KEPT:]
        return memoryview(found)[:size]


def _references(buffers: list[bytearray], index: int) -> int:
    """To a buffer that is in a list: how many the list and this question take depends on Python's version."""
    return sys.getrefcount(buffers[index])


_UNSEEN = _references([bytearray()], 0)
