"""One connection to a broker as a machine without sockets: requests in, bytes out; bytes in, answers out.

The protocol's rules of a connection, all of them here: the first exchange is ApiVersions, after it both
sides speak the highest version of each API that both know; every request carries a correlation id and
answers come in the order of the requests; a frame has a length, and a limit.  `blocking` and `aio` drive
this machine; nothing here waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from barnabas.errors import BarnabasError, ErrorCode, KafkaError, WireError
from barnabas.model import NO_NODE, NodeId
from barnabas.ports import Buffer
from barnabas.version import __version__
from barnabas.wire.codec.declaration import OWN_TAG
from barnabas.wire.codec.message import Message, decode
from barnabas.wire.frame import (
    HEAP,
    FrameMemory,
    FrameReader,
    FrameTooLarge,
    RequestHeader,
    read_response_header,
    write_request,
)
from barnabas.wire.registry import API_NAMES, response_class
from barnabas.wire.schemas.cluster import ApiVersionsRequest, ApiVersionsResponse

__all__ = [
    "Connection",
    "ConnectionFailed",
    "ConnectionStatistics",
    "Meant",
    "Reader",
    "RequestTimedOut",
    "Response",
    "Sent",
    "first_of",
]

T = TypeVar("T")
_new = tuple.__new__  # what NamedTuple's constructor calls, without its keywords
Reader = Callable[[Buffer, int], Any]
"""Reads a whole frame (without its length) as the answer with this correlation id; None: the decoder shall."""
API_VERSIONS = 18
_METADATA, _VOTE = 3, 52
"""Keys that brokers serve and controllers do not, and the other way round."""
_BOOTSTRAP = OWN_TAG + 1
_BEFORE_A_CLUSTER = {API_VERSIONS, _BOOTSTRAP}
"""The keys that a node serves while it waits for a cluster to join."""
DEFAULT_MAX_FRAME = 256 << 20
"""Largest answer we take (bytes).  A broker may exceed fetch.max.bytes by one batch, never by this much."""


class ConnectionFailed(BarnabasError):  # noqa: N818  says what happened, as the docs do
    """A broker could not be reached, or the connection broke.  `address` is "host:port".

    What was under way may or may not have been carried out.  `silent`: nothing came, not even a refusal.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, address: str = "", next_step: str | None = None, silent: bool = False
    ) -> None:
        super().__init__(message, next_step=next_step)
        self.address = address
        self.silent = silent


class RequestTimedOut(ConnectionFailed):
    """No answer in time; the connection was closed, for the late answer would be taken for another's."""

    exit_code = 5

    def __init__(self, message: str, *, address: str = "", next_step: str | None = None) -> None:
        super().__init__(message, address=address, next_step=next_step, silent=True)


class Sent(NamedTuple):
    """A request on its way: write `parts` to the socket, then expect the answer (none when `silent`)."""

    correlation_id: int
    parts: Sequence[Buffer]
    silent: bool


class Response(NamedTuple):
    """An answer taken from the connection.  Records in it are views of the frame it came in."""

    correlation_id: int
    message: Any
    version: int


class ConnectionStatistics(NamedTuple):
    """What went over one connection so far."""

    requests: int
    answers: int
    bytes_in: int
    waiting: int


class Meant(NamedTuple):
    """The node of a cluster that a client means to talk to at an address (KIP-1242)."""

    cluster_id: str
    node: NodeId


class Connection:
    """`Connection(client_id="me").send(request)` -> Sent: the sans-I/O core of one connection.

    Begin with `negotiate()`; from then on `send` any request and `receive` any bytes.
    """

    __slots__ = (
        "_asked",
        "_bytes_in",
        "_expected",
        "_meant",
        "_requests",
        "address",
        "client_id",
        "finalized",
        "frames",
        "max_frame",
        "next_correlation_id",
        "versions",
    )

    def __init__(
        self,
        client_id: str = "barnabas",
        max_frame: int = DEFAULT_MAX_FRAME,
        memory: FrameMemory = HEAP,
        meant: Meant | None = None,
        *,
        address: str = "HOST:PORT",
    ) -> None:
        """`memory` is where large answers are received; a broker that is not the one `meant` says so.

        `address` is for the next steps of errors.
        """
        self.client_id = client_id
        self.address = address
        self._meant = meant
        self.max_frame = max_frame
        self.versions: dict[int, tuple[int, int]] | None = None
        """API key -> (lowest, highest) version the broker serves; None before the negotiation is over."""
        self.finalized: dict[str, int] = {}
        """The level of each feature on which the cluster has agreed."""
        self._expected: deque[tuple[int, type[Message], int, Reader | None]] = deque()
        self.frames = FrameReader(max_frame, memory)
        self._asked = 0
        self.next_correlation_id = 0
        """What the next request will carry."""
        self._requests = 0
        self._bytes_in = 0

    def __repr__(self) -> str:
        state = "new" if self.versions is None else f"{len(self.versions)} apis"
        return (
            f"<Connection {self.client_id!r} {state} requests={self._requests} waiting={len(self._expected)}>"
        )

    def statistics(self) -> ConnectionStatistics:
        """`connection.statistics().waiting`: requests whose answers are still to come, and totals."""
        waiting = len(self._expected)
        return ConnectionStatistics(self._requests, self._requests - waiting, self._bytes_in, waiting)

    # -- negotiation -----------------------------------------------------------------------------

    def negotiate(self, answer: Response | None = None) -> Sent | None:
        """`connection.negotiate()` -> the first request; with its answer: another one, or None when done.

        A broker that does not know our version of ApiVersions answers in version 0 with error 35 and
        its own range (KIP-511); we ask once more within it.
        """
        asked = ApiVersionsRequest.VERSIONS[1]
        if answer is not None:
            response: ApiVersionsResponse = answer.message
            served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
            if response.error_code == ErrorCode.NONE:
                self.versions = served
                self.finalized = {f.name: f.max_version_level for f in response.finalized_features}
                return None
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._meant is not None:
                raise KafkaError(
                    ErrorCode.REBOOTSTRAP_REQUIRED,
                    f"another node than {self._meant.node} of cluster {self._meant.cluster_id} listens there",
                    next_step="see with `barnabas cluster cluster-id` whether the bootstrap addresses are right",
                )
            if response.error_code != ErrorCode.UNSUPPORTED_VERSION or self._asked == 0:
                raise KafkaError(ErrorCode(response.error_code), "the broker refused to say what it serves")
            asked = max(min(served.get(API_VERSIONS, (0, 0))[1], self._asked - 1), 0)
        self._asked = asked
        cluster_id, node = (None, NO_NODE) if self._meant is None else self._meant
        request = ApiVersionsRequest(
            client_software_name="barnabas",
            client_software_version=__version__,
            cluster_id=cluster_id,
            node_id=node,
        )
        return self.send(request, asked)

    def version_of(self, request: type[Message] | Message) -> int:
        """`connection.version_of(FetchRequest)` -> the highest version both sides know.

        Raises KafkaError UNSUPPORTED_VERSION when there is none.
        """
        key = request.KEY
        first, last = request.VERSIONS
        if self.versions is None or key is None:
            return int(last)
        if key != _BOOTSTRAP and self.versions.keys() == _BEFORE_A_CLUSTER:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the node at {self.address} waits for a cluster: none that it was to join has answered yet",
                next_step=f"start the others; where there is no cluster yet: `barnabas quorum bootstrap "
                f"-C {self.address}`, once, begins one with this node",
            )
        low, high = self.versions.get(key, (0, -1))
        version = min(high, last)
        if version < max(low, first):
            served = f"it serves {low} to {high}" if high >= 0 else "it does not serve it"
            if high < 0 and _METADATA not in self.versions and _VOTE in self.versions:
                raise KafkaError(
                    ErrorCode.UNSUPPORTED_VERSION,
                    f"a controller listens there: it does not serve {API_NAMES.get(key, key)}",
                    next_step="give the address of a broker: `barnabas cluster list-endpoints "
                    f"--bootstrap-controller {self.address}` names them",
                )
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"the broker and this client share no version of {API_NAMES.get(key, key)}: "
                f"we know {first} to {last}, {served}",
                next_step="connect to a broker of Kafka 4.x, or of this version of barnabas",
            )
        return int(version)

    def serves(self, request: type[Message]) -> bool:
        """`connection.serves(DescribeQuorumRequest)`: whether the broker has said that it serves this API."""
        return self.versions is not None and request.KEY in self.versions

    # -- requests and answers --------------------------------------------------------------------

    def send(self, request: Message, version: int | None = None, *, silent: bool = False) -> Sent:
        """`connection.send(MetadataRequest())` -> the bytes to write; version None: the highest common one.

        `silent` is for Produce with acks=0, the one request that has no answer.
        """
        if version is None:
            version = self.version_of(request)
        key = request.KEY
        if key is None:
            raise WireError(f"{request.NAME} is no request")
        correlation_id = self.next_correlation_id
        self.next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        header = RequestHeader(key, version, correlation_id, self.client_id)
        parts = [
            part if isinstance(part, bytes | bytearray | memoryview) else part.read()
            for part in write_request(header, request)
        ]
        self._requests += 1
        if not silent:
            self._expected.append((correlation_id, response_class(key), version, None))
        return Sent(correlation_id, parts, silent)

    def send_frame(self, frame: bytes, request: type[Message], version: int, read: Reader) -> Sent:
        """`connection.send_frame(frame, FetchRequest, 17, read)`: a request in bytes, its length included.

        It carries `next_correlation_id`.  Its answer is what `read` makes of the frame; None: it is decoded.
        """
        assert request.KEY is not None
        correlation_id = self.next_correlation_id
        self.next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        self._requests += 1
        self._expected.append((correlation_id, response_class(request.KEY), version, read))
        return _new(Sent, (correlation_id, [frame], False))

    def frame_size(self, prefix: Buffer) -> int:
        """`connection.frame_size(four_bytes)` -> bytes to follow; WireError when that cannot be an answer."""
        size = int.from_bytes(prefix, "big", signed=True)
        if not 4 <= size <= self.max_frame:
            raise _strange(bytes(prefix), size)
        return size

    def receive_frame(self, frame: Buffer) -> Response:
        """`connection.receive_frame(frame)` -> the answer in one whole frame (without its length)."""
        if not self._expected:
            raise WireError("the broker sent an answer that nobody asked for")
        correlation_id, message, version, read = self._expected[0]
        self._bytes_in += len(frame) + 4
        if read is not None and (plain := read(frame, correlation_id)) is not None:
            self._expected.popleft()
            return _new(Response, (correlation_id, plain, version))
        key = message.KEY
        assert key is not None
        got, position = read_response_header(frame, key, version)
        if got != correlation_id:
            raise WireError(f"the answer has correlation id {got}, {correlation_id} was expected")
        self._expected.popleft()
        if key == API_VERSIONS and int.from_bytes(frame[position : position + 2], "big", signed=True) == 35:
            version = 0  # KIP-511: this error is always in version 0
        body, _ = decode(message, memoryview(frame), version, position)
        return Response(correlation_id, body, version)

    def receive(self, data: Buffer) -> list[Response]:
        """`connection.receive(data)` -> answers complete now, for shells that get bytes piecemeal."""
        self.frames.feed(data)
        return self.answers()

    def answers(self) -> list[Response]:
        """`connection.answers()` -> those complete by what was received into `connection.frames`."""
        found: list[Response] = []
        try:
            while (frame := self.frames.take()) is not None:
                found.append(self.receive_frame(frame))
        except FrameTooLarge as error:
            raise _strange(error.size.to_bytes(4, "big", signed=True), error.size) from None
        return found


def first_of(items: Sequence[T], what: str) -> T:
    """`first_of(response.groups, "group g")`: what the answer says first.  Raises WireError if that is nothing."""
    if not items:
        raise WireError(f"the broker's answer says nothing of {what}")
    return items[0]


def _strange(prefix: bytes, size: int) -> WireError:
    """What is at the other side, where four bytes cannot be the length of an answer."""
    if prefix[:2] in (b"\x15\x03", b"\x16\x03"):
        return WireError(
            "the other side does not speak Kafka, it answers in TLS",
            next_step="set security.protocol to SSL or SASL_SSL",
        )
    return WireError(
        f"the other side announces an answer of {size} bytes: it does not speak Kafka, or speaks TLS",
        next_step="check the port: it should be a Kafka listener, and security.protocol that listener's",
    )
