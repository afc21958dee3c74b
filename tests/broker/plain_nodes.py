"""Nodes for fetches, and a client whose fetches are all on the same terms."""

from __future__ import annotations

from typing import Any

from tests.broker.harness import PAGE_CACHE, Answer, Node, batch

from barnabas.broker.ports import Operation, ResourceType
from barnabas.broker.replicas.partition import Partition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches

__all__ = [
    "FOLLOWER",
    "KINDS",
    "SIZE",
    "WAIT_S",
    "WAYS",
    "Doorkeeper",
    "NodeAnew",
    "Reading",
    "node_for",
    "partition_of",
    "put",
]

FOLLOWER = 2
KINDS = ("alone", "session", "follower")
"""Of clients: a consumer without a session, a consumer with one, a follower."""
WAYS = ("anew", "going on")
"""In which a node serves fetches: each as the first on its terms, or by what served the last one."""
WAIT_S = 10.0
"""How long a fetch of a `Reading` may wait."""
SIZE = len(batch("x" * 40))
"""Of a batch that is `put`."""


class NodeAnew(Node):
    """Serves each fetch as if it were the first on its terms."""

    goes_on = False


def node_for(
    kind: str,
    way: str,
    partitions: int = 1,
    *,
    replicas: tuple[int, ...] = (1, FOLLOWER),
    segment_bytes: int = 1 << 30,
    **settings: Any,
) -> Node:
    """A node with topic `t` that serves fetches in this way; where a consumer reads it is the only replica."""
    follower = kind == "follower"
    node = (Node if way == "going on" else NodeAnew)(
        MemoryDisk(1), **{"log_flush_interval_messages": PAGE_CACHE, **settings}
    )
    placed = replicas if follower else (1,)
    node.create("t", partitions, replicas=placed, internal_segment_bytes=str(segment_bytes))
    return node


def put(node: Node, *partitions: int) -> None:
    """One batch more in each of these."""
    for index in partitions:
        node.append(batch("x" * 40), index=index, acks=1)


def partition_of(node: Node, index: int = 0) -> Partition:
    partition = node.broker.partition("t", index)
    assert partition is not None
    return partition


class Doorkeeper:
    """Lets everybody do everything, until it lets nobody read or replicate."""

    def __init__(self) -> None:
        self.strict = False
        self.generation = 0
        self.refused = 0

    def authorize(
        self, context: Any, operation: Operation, resource: ResourceType, name: str, *, asked: bool = True
    ) -> bool:
        allowed = not (self.strict and operation in (Operation.READ, Operation.CLUSTER_ACTION))
        self.refused += asked and not allowed
        return allowed

    def tell(self, node: Node, *, strict: bool) -> None:
        self.strict = strict
        self.generation += 1
        node.broker.rights_changed()


class Reading:
    """A client of topic `t` whose fetches all say the same limits.

    Without a session each of its fetches names all its partitions, in a session those that it read on in.
    """

    def __init__(
        self,
        node: Node,
        kind: str,
        *,
        partitions: int = 1,
        waits: bool = True,
        version: int = 17,
        **limits: int,
    ) -> None:
        """The logs are empty."""
        self.node = node
        self.kind = kind
        self.version = version
        self.offsets = dict.fromkeys(range(partitions), 0)
        self.session = 0
        self.epoch = -1 if kind == "alone" else 0
        """Of the session, that its next fetch has."""
        self.leader_epoch = self.last_epoch = -1
        """What it says of every partition that it names."""
        self.taken: list[tuple[int, int]] = []
        """The batches that it got, in their order: partition and first offset."""
        self._wait_ms = int(WAIT_S * 1000) if waits else 0
        self.limits = limits
        """What each of its fetches says besides, in the words of `Node.fetch`."""
        self._moved = set(self.offsets)
        for _ in range(4):
            answer = self.fetch()
            if not answer.here:
                node.after(WAIT_S + 0.01)
            assert not self.batches(answer)

    def fetch(self, *, all_of_it: bool = False) -> Answer:
        """Send the next fetch; one of a session names `all_of_it` where it is to say more than what moved."""
        named = self.offsets if self.kind == "alone" or all_of_it else sorted(self._moved)
        self._moved.clear()
        answer = self.node.fetch(
            {("t", index): self.offsets[index] for index in named},
            version=self.version,
            max_wait_ms=self._wait_ms,
            session=(self.session, self.epoch),
            epoch=self.leader_epoch,
            last_fetched_epoch=self.last_epoch,
            replica=FOLLOWER if self.kind == "follower" else -1,
            log_start=0 if self.kind == "follower" else -1,
            **self.limits,
        )
        if self.epoch >= 0:
            self.epoch += 1
        return answer

    def batches(self, answer: Answer | None = None) -> list[tuple[int, int]]:
        """The batches of this answer (None: that of the next fetch), as in `taken`; it goes on behind them."""
        answer = self.fetch() if answer is None else answer
        assert answer.message.error_code == 0
        self.session = answer.message.session_id
        found: list[tuple[int, int]] = []
        for (_, index), data in answer.partitions.items():
            assert data.error_code == 0
            for _, header in batches(bytes(data.records or b"")):
                found.append((index, header.base_offset))
                self.offsets[index] = header.last_offset + 1
                self._moved.add(index)
        self.taken += found
        return found

    def error(self, answer: Answer | None = None) -> int:
        """The error of the only partition of this answer (None: that of the next fetch), or that of it all."""
        answer = self.fetch() if answer is None else answer
        if answer.message.error_code:
            return int(answer.message.error_code)
        [data] = answer.partitions.values()
        return int(data.error_code)
