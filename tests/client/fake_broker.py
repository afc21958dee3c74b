"""A broker of a hundred lines on a real socket: enough of the protocol for the client's tests, no more.

Topics live in memory.  `on(RequestClass, answer)` puts a test's own answer in the place of the usual one:
a function of the request that returns a response, None for the usual answer, or `CLOSE`.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from barnabas.model import Uuid
from barnabas.wire.codec.message import decode
from barnabas.wire.frame import LENGTH, read_request_header, write_response
from barnabas.wire.records import batches, patch, read_records
from barnabas.wire.registry import request_class
from barnabas.wire.schemas.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from barnabas.wire.schemas.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from barnabas.wire.schemas.offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.wire.schemas.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from barnabas.wire.schemas.transactions import InitProducerIdRequest, InitProducerIdResponse

CLOSE = object()
SERVED = (
    ProduceRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    InitProducerIdRequest,
    ApiVersionsRequest,
)


class FakeBroker:
    """`with FakeBroker(t=2) as broker: Producer(broker.address)`: topic t with two partitions."""

    def __init__(self, *, node: int = 1, cluster: list[FakeBroker] | None = None, **topics: int) -> None:
        self.node = node
        self.cluster = cluster if cluster is not None else []
        self.cluster.append(self)
        self.topics: dict[str, Uuid] = {}
        self.partitions: dict[tuple[str, int], bytearray] = {}
        self.leaders: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = {}
        for name, count in topics.items():
            self.make(name, count)
        self.ends: dict[tuple[str, int], int] = defaultdict(int)
        self.seen: list[Any] = []
        self.api_versions = {cls.KEY: cls.VERSIONS for cls in SERVED}
        self._answers: dict[type, Callable[[Any], Any]] = {}
        self._sequences: dict[tuple[str, int, int], int] = {}
        self._producers = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = self._server.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> FakeBroker:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def make(self, name: str, partitions: int) -> None:
        """Make a topic that this broker leads, or one that is there larger."""
        for where in [(name, number) for number in range(partitions)]:
            self.partitions.setdefault(where, bytearray())
            self.leaders.setdefault(where, self.node)
            self.epochs.setdefault(where, 0)
        self.topics.setdefault(name, Uuid.of(7, len(self.topics)))

    def on(self, kind: type, answer: Callable[[Any], Any]) -> None:
        self._answers[kind] = answer

    def asked(self, kind: type) -> list[Any]:
        return [request for request in self.seen if isinstance(request, kind)]

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        raw = self.partitions[topic, partition]
        return [r.value for at, header in batches(raw) for r in read_records(raw, at, header)]

    # -- the socket ------------------------------------------------------------------------------

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, contextlib.suppress(OSError):
            stream = sock.makefile("rb")
            while len(prefix := stream.read(4)) == 4:
                frame = stream.read(LENGTH.unpack(prefix)[0])
                header, position = read_request_header(frame)
                kind = request_class(header.api_key)
                request, _ = decode(kind, frame, header.version, position)
                self.seen.append(request)
                answer = self._answers.get(kind, lambda _: None)(request)
                if answer is CLOSE:
                    return
                if answer is None:
                    answer = self._usual(request, header.version)
                if answer is not None:
                    parts: list[Any] = []
                    write_response(parts, header.correlation_id, header.api_key, header.version, answer)
                    sock.sendall(b"".join(bytes(part) for part in parts))

    # -- the usual answers -----------------------------------------------------------------------

    def _usual(self, request: Any, version: int) -> Any:
        match request:
            case ApiVersionsRequest():
                served = [
                    ApiVersion(api_key=k, min_version=a, max_version=b)
                    for k, (a, b) in self.api_versions.items()
                ]
                return ApiVersionsResponse(api_keys=served)
            case MetadataRequest():
                return self._metadata(request)
            case InitProducerIdRequest():
                self._producers += 1
                return InitProducerIdResponse(producer_id=1000 + self._producers, producer_epoch=0)
            case ProduceRequest():
                return self._produce(request)
            case FetchRequest():
                return self._fetch(request)
            case ListOffsetsRequest():
                return self._list_offsets(request)
        raise AssertionError(request)

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        wanted = list(self.topics) if request.topics is None else [t.name for t in request.topics]
        brokers = [
            MetadataResponseBroker(node_id=b.node, host="127.0.0.1", port=b.port) for b in self.cluster
        ]
        topics = [
            MetadataResponseTopic(
                error_code=0 if name in self.topics else 3,
                name=name,
                topic_id=self.topics.get(name, Uuid.of(0, 0)),
                partitions=[
                    MetadataResponsePartition(
                        partition_index=p,
                        leader_id=self.leaders[t, p],
                        leader_epoch=self.epochs.get((t, p), 0),
                    )
                    for t, p in self.partitions
                    if t == name
                ],
            )
            for name in wanted
        ]
        return MetadataResponse(brokers=brokers, cluster_id="fake", controller_id=1, topics=topics)

    def _name(self, topic_id: Uuid, name: str) -> str:
        return next((n for n, i in self.topics.items() if i == topic_id), name)

    def _produce(self, request: ProduceRequest) -> ProduceResponse | None:
        topics = []
        for topic in request.topic_data:
            name = self._name(topic.topic_id, topic.name)
            answers = [
                self.append((name, d.index), bytearray(d.records or b"")) for d in topic.partition_data
            ]
            topics.append(
                TopicProduceResponse(name=name, topic_id=topic.topic_id, partition_responses=answers)
            )
        return ProduceResponse(responses=topics) if request.acks else None

    def append(self, where: tuple[str, int], raw: bytearray) -> PartitionProduceResponse:
        if self.leaders[where] != self.node:
            return PartitionProduceResponse(index=where[1], error_code=6, base_offset=-1)
        for at, header in batches(raw):
            key = (*where, header.producer_id)
            expected = self._sequences.get(key, 0)
            if header.producer_id >= 0 and header.base_sequence != expected:
                code = 46 if header.base_sequence < expected else 45
                return PartitionProduceResponse(index=where[1], error_code=code, base_offset=-1)
            self._sequences[key] = expected + header.count
            base = self.ends[where]
            patch(raw, at, base, 0)
            self.ends[where] = base + header.count
            self.partitions[where] += raw
            return PartitionProduceResponse(index=where[1], base_offset=base)
        raise AssertionError("no batch")

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        topics = []
        for topic in request.topics:
            name = self._name(topic.topic_id, topic.topic)
            parts = [
                self._read((name, p.partition), p.fetch_offset, p.partition_max_bytes)
                for p in topic.partitions
            ]
            topics.append(FetchableTopicResponse(topic=name, topic_id=topic.topic_id, partitions=parts))
        return FetchResponse(responses=topics)

    def _read(self, where: tuple[str, int], offset: int, limit: int) -> PartitionData:
        if self.leaders[where] != self.node:
            return PartitionData(partition_index=where[1], error_code=6)
        if not 0 <= offset <= self.ends[where]:
            return PartitionData(partition_index=where[1], error_code=1, high_watermark=-1)
        raw = self.partitions[where]
        found = b""
        for at, header in batches(raw):
            if header.last_offset >= offset and (not found or len(found) + header.size <= limit):
                found += bytes(raw[at : at + header.size])
        end = self.ends[where]
        return PartitionData(
            partition_index=where[1], high_watermark=end, last_stable_offset=end, records=found
        )

    def _list_offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        def answer(name: str, partition: Any) -> ListOffsetsPartitionResponse:
            where = (name, partition.partition_index)
            if self.leaders[where] != self.node:
                return ListOffsetsPartitionResponse(partition_index=where[1], error_code=6)
            offset = 0 if partition.timestamp == -2 else self.ends[where]
            return ListOffsetsPartitionResponse(partition_index=where[1], offset=offset)

        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(name=t.name, partitions=[answer(t.name, p) for p in t.partitions])
                for t in request.topics
            ]
        )
