"""A connection on asyncio: many callers, one socket, answers in the order of the requests.

    async with await AsyncConnection.connect("127.0.0.1", 9092) as connection:
        response = await connection.request(MetadataRequest())

Callers may ask at the same time; their requests go out one after the other without waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from types import TracebackType
from typing import Any, cast

from barnabas.client.connection import (
    DEFAULT_MAX_FRAME,
    Connection,
    ConnectionFailed,
    Meant,
    Reader,
    RequestTimedOut,
    Response,
    Sent,
)
from barnabas.client.security.options import PLAINTEXT, Security, why_ended
from barnabas.client.waits.forks import check_process, forks
from barnabas.client.waits.silence import counted_out, patience
from barnabas.errors import BarnabasError, WireError
from barnabas.wire.codec.message import Message
from barnabas.wire.frame import HEAP, FrameMemory

__all__ = ["AsyncConnection", "IsOut", "unless_out"]

_CLOSING_S = 1.0
IsOut = Callable[[], Awaitable[bool]]
"""Whether another broker says that this one, which is silent, is out."""


class AsyncConnection(asyncio.BufferedProtocol):
    """`await AsyncConnection.connect("127.0.0.1", 9092)`, then `await connection.request(message)`."""

    AWAITED = True
    """See `for_both`."""

    def __init__(
        self,
        address: str,
        *,
        client_id: str,
        timeout: float,
        max_frame: int,
        memory: FrameMemory = HEAP,
        security: Security = PLAINTEXT,
        is_out: IsOut | None = None,
        meant: Meant | None = None,
    ) -> None:
        self.address = address
        self.timeout = timeout
        self._is_out = is_out
        self._made = forks()
        self._core = Connection(client_id, max_frame, memory, meant, address=address)
        self._transport: asyncio.Transport | None = None
        self._answers: dict[int, Callable[[Response | BarnabasError], None]] = {}
        """By correlation id: who waits for the answer."""
        self._writable: asyncio.Future[None] | None = None
        self._security = security
        self._renew_at = float("inf")
        self._renewing: asyncio.Task[None] | None = None
        """A login while the connection is in use: other requests wait for its end."""
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def __repr__(self) -> str:
        return f"<AsyncConnection {self.address} {'closed' if self.closed else self._core!r}>"

    async def __aenter__(self) -> AsyncConnection:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        *,
        client_id: str = "barnabas",
        timeout: float = 30.0,  # noqa: ASYNC109  the default of later requests, not of this call
        connect_timeout: float = 10.0,
        max_frame: int = DEFAULT_MAX_FRAME,
        memory: FrameMemory = HEAP,
        security: Security = PLAINTEXT,
        is_out: IsOut | None = None,
        meant: Meant | None = None,
    ) -> AsyncConnection:
        """`await AsyncConnection.connect("127.0.0.1", 9092)`: connect and agree on versions.

        `memory` receives large answers, whose records last as long as it says.  `is_out` is asked while a request
        has no answer; once it says yes, the connection is closed.  Raises ConnectionFailed, AuthenticationFailed
        from TLS or a login, and KafkaError REBOOTSTRAP_REQUIRED if another node than the one `meant` answers.
        """
        address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_timeout):
                connection: AsyncConnection
                _, connection = await loop.create_connection(
                    lambda: cls(
                        address,
                        client_id=client_id,
                        timeout=timeout,
                        max_frame=max_frame,
                        memory=memory,
                        security=security,
                        is_out=is_out,
                        meant=meant,
                    ),
                    host,
                    port,
                    **_tls(security, host),
                )
                try:
                    sent = connection._core.negotiate()
                    while sent is not None:
                        sent = connection._core.negotiate(await connection._expect(sent))
                    if security.sasl is not None:
                        await connection._log_in()
                except BaseException:
                    connection._fail(
                        ConnectionFailed(f"{address}: the connection was given up", address=address)
                    )
                    raise
        except TimeoutError as error:
            raise ConnectionFailed(
                f"no answer from {address} in {connect_timeout:g} s",
                address=address,
                next_step="check that host and port are right and no firewall drops the packets",
                silent=True,
            ) from error
        except OSError as error:
            if security.tls is not None and not isinstance(error, ConnectionRefusedError):
                from barnabas.client.security.tls import failure_in_words

                if said := failure_in_words(error, address, host):
                    raise said from error
            raise ConnectionFailed(
                f"cannot connect to {address}: {error.strerror or error}",
                address=address,
                next_step="start a node with `barnabas start`, or check host and port",
            ) from error
        return connection

    @property
    def closed(self) -> bool:
        """Whether the connection is of no more use."""
        return self._transport is None or self._transport.is_closing()

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """What the other side says it serves: lowest and highest version by API key."""
        return self._core.versions or {}

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

    async def request(
        self,
        message: Message,
        version: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  as in the blocking shell; closes the connection too
        *,
        silent: bool = False,
    ) -> Any:
        """`await connection.request(MetadataRequest())` -> its response message; None where `silent`: it has none.

        Raises RequestTimedOut after `timeout` seconds (the connection is closed then), ConnectionFailed.
        """
        check_process(self._made)
        self._check_open()
        limit = self.timeout if timeout is None else timeout
        if self._renewing is not None or self._renew_at != float("inf"):
            await self._renewed(limit)
        try:
            async with asyncio.timeout(limit):
                if self._writable is not None:
                    await self._unless_out(asyncio.shield(self._writable))
                    self._check_open()
                sent = self._core.send(message, version, silent=silent)
                if silent:
                    self._write(sent, None)
                    return None
                answer = self._expect(sent)
                if self._is_out is not None:
                    await self._unless_out(answer)
                return (await answer).message
        except TimeoutError as error:
            failure = RequestTimedOut(
                f"{self.address} did not answer in {limit:g} s",
                address=self.address,
                next_step="check whether the request was carried out before you repeat it",
            )
            self._fail(failure)
            raise failure from error

    def _check_open(self) -> None:
        if self._transport is None or self._transport.is_closing():
            raise ConnectionFailed(f"the connection to {self.address} is closed", address=self.address)

    async def _unless_out(self, awaited: asyncio.Future[Any]) -> None:
        """Wait for it; once the broker is counted out, fail the connection, and with it what is awaited."""
        if not await unless_out(awaited, self._is_out):
            self._fail(counted_out(self.address))

    def ask(self, message: Message, on_answer: Callable[[Response | BarnabasError], None]) -> None:
        """`connection.ask(message, call)`: have `call` called with the answer, or with what ended the connection.

        For callers with one request after the other who keep the time themselves.  Where the session is nearly
        over, a login goes first.  Raises ConnectionFailed, KafkaError.
        """
        self._check_open()
        if self._renew_at != float("inf") and (renewing := self._login_under_way()) is not None:
            renewing.add_done_callback(lambda _: self._ask_after_login(message, on_answer))
            return
        self._write(self._core.send(message), on_answer)

    @property
    def logs_in_again(self) -> bool:
        """Whether the session of this connection ends, so that a login has to go between its requests."""
        return self._renew_at != float("inf")

    @property
    def client_id(self) -> str:
        """What its requests carry."""
        return self._core.client_id

    @property
    def next_correlation_id(self) -> int:
        """What its next request will carry."""
        return self._core.next_correlation_id

    def ask_frame(
        self,
        frame: bytes,
        request: type[Message],
        version: int,
        read: Reader,
        on_answer: Callable[[Response | BarnabasError], None],
    ) -> None:
        """As `ask`, for a request in bytes whose answer `read` may know (see `Connection.send_frame`).

        Not where it `logs_in_again`.  Raises ConnectionFailed.
        """
        self._check_open()
        self._write(self._core.send_frame(frame, request, version, read), on_answer)

    def _ask_after_login(
        self, message: Message, on_answer: Callable[[Response | BarnabasError], None]
    ) -> None:
        renewing = self._renewing
        try:
            if renewing is not None and renewing.done():
                self._renewing = None
                renewing.result()
            self._check_open()
            self._write(self._core.send(message), on_answer)
        except BarnabasError as error:
            on_answer(error)
        except asyncio.CancelledError:
            on_answer(ConnectionFailed(f"the login at {self.address} was given up", address=self.address))

    async def close(self) -> None:
        """`await connection.close()`: close the socket; requests under way fail."""
        self._fail(ConnectionFailed(f"the connection to {self.address} was closed", address=self.address))
        done, _ = await asyncio.wait([self._closed], timeout=_CLOSING_S)
        if not done and self._transport is not None:
            self._transport.abort()

    def abort(self) -> None:
        """`connection.abort()`: close without waiting for the end; requests under way fail."""
        self._fail(ConnectionFailed(f"the connection to {self.address} was dropped", address=self.address))

    async def _renewed(self, limit: float) -> None:
        """Log in again before the session is over; wait for a login under way."""
        renewing = self._login_under_way()
        if renewing is None:
            return
        done, _ = await asyncio.wait([renewing], timeout=limit)
        if not done:
            self._fail(ConnectionFailed(f"{self.address}: the login takes too long", address=self.address))
        elif self._renewing is renewing:
            self._renewing = None
        await renewing

    def _login_under_way(self) -> asyncio.Task[None] | None:
        """The login that other requests wait for; begun now where the session is nearly over."""
        loop = asyncio.get_running_loop()
        if self._renewing is None and loop.time() >= self._renew_at:
            self._renewing = loop.create_task(self._log_in())
            self._renewing.add_done_callback(_heard)
        return self._renewing

    async def _log_in(self) -> None:
        """Say who we are."""
        from barnabas.client.security.access import login_at, renew_after

        loop = asyncio.get_running_loop()
        try:
            login = await loop.run_in_executor(
                None, login_at, self._security, self.address
            )  # may ask for a token
            assert login is not None
            if self.closed:  # meanwhile: no answer would ever come
                raise ConnectionFailed(f"the connection to {self.address} was closed", address=self.address)
            request: Message | None = login.begin()
            while request is not None:
                request = login.take((await self._expect(self._core.send(request))).message)
        except BarnabasError as error:
            self._fail(error)
            raise
        self._renew_at = renew_after(login, loop.time())

    def _expect(self, sent: Sent) -> asyncio.Future[Response]:
        future: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._write(sent, partial(settle, future))
        return future

    def _write(self, sent: Sent, on_answer: Callable[[Response | BarnabasError], None] | None) -> None:
        assert self._transport is not None
        if on_answer is not None:
            self._answers[sent.correlation_id] = on_answer
        self._transport.writelines(sent.parts)

    def _fail(self, error: BarnabasError) -> None:
        if self._transport is not None:
            if self._writable is not None or isinstance(error, RequestTimedOut):
                self._transport.abort()  # a silent broker takes nothing more: to wait for that would have no end
            else:
                self._transport.close()
        self.resume_writing()
        waiting, self._answers = self._answers, {}
        for on_answer in waiting.values():
            on_answer(error)

    # -- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # (uvloop's is no subclass)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._core.frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._core.frames.received(nbytes)
            answers = self._core.answers()
        except WireError as error:
            self._fail(error)
            return
        for answer in answers:
            on_answer = self._answers.pop(answer.correlation_id, None)
            if on_answer is not None:
                on_answer(answer)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(self._ended_by(error))
        self.resume_writing()
        if not self._closed.done():
            self._closed.set_result(None)

    def _ended_by(self, error: Exception | None) -> BarnabasError:
        if self._security.tls is not None and isinstance(error, OSError):
            from barnabas.client.security.tls import refusal_in_words

            if said := refusal_in_words(error, self.address):
                return said
        reason = str(error) if error else "the broker closed the connection"
        return ConnectionFailed(
            f"{self.address}: {reason}",
            address=self.address,
            next_step=why_ended(self._security),
        )

    def pause_writing(self) -> None:
        self._writable = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None


async def unless_out(awaited: asyncio.Future[Any], is_out: IsOut | None) -> bool:
    """`await unless_out(answer, is_out)` -> True once it is done, False once another broker counts it out."""
    looks = 0
    while True:
        done, _ = await asyncio.wait([awaited], timeout=None if is_out is None else patience(looks))
        if done or is_out is None:
            return True
        looks += 1
        if await is_out():
            return awaited.done()


def _tls(security: Security, host: str) -> dict[str, Any]:
    """What `create_connection` needs for TLS."""
    if security.tls is None:
        return {}
    from barnabas.client.security.access import tls_context

    return {"ssl": tls_context(security), "server_hostname": host}


def _heard(login: asyncio.Task[None]) -> None:
    """A login fails with its connection, too, after the last caller has gone: nobody is told then."""
    if not login.cancelled():
        login.exception()


def settle(future: asyncio.Future[Any], result: Any) -> None:
    """Give a future its result, or the error that came instead; nothing where nobody waits for it any more."""
    if future.done():
        return
    if isinstance(result, BarnabasError):
        future.set_exception(result)
        future.exception()  # a caller that has gone away need not hear of it
    else:
        future.set_result(result)
