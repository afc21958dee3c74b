"""An invariant: a class with a name that observes everything, and raises an error when it is violated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.model import Offset, ReplicaKey
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.raft.messages import Request, Response

if TYPE_CHECKING:
    from barnabas.sim.quorum.invariants.answers import Wish
    from barnabas.sim.quorum.node import Node
    from barnabas.sim.quorum.world import World

__all__ = ["Broken", "Invariant", "listen"]


class Broken(AssertionError):  # noqa: N818 - the name of what happened
    """A promise was broken.  `promise` is its name."""

    def __init__(self, promise: str, text: str) -> None:
        super().__init__(f"{promise}: {text}")
        self.promise = promise


class Invariant:
    """One promise.  It overrides what it wants to hear of; `fail` says that it was broken."""

    name = ""

    def __init__(self, world: World) -> None:
        self.world = world

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def fail(self, text: str) -> None:
        raise Broken(self.name, text)

    def started(self, node: Node) -> None:
        """The node opened its directory; nothing was stepped yet."""

    def stepped(self, node: Node) -> None:
        """The node took a turn, and its log (its end, what is synced, its snapshots) is not as it was."""

    def appended(self, node: Node, batch: Batch) -> None:
        """A batch stands in the node's log (not synced)."""

    def truncating(self, node: Node, end_offset: Offset) -> None:
        """The node is about to cut its log."""

    def installing(self, node: Node, snapshot: SnapshotId) -> None:
        """The node is about to replace its log by a snapshot."""

    def installed(self, node: Node) -> None:
        """It has."""

    def synced(self, node: Node) -> None:
        """A job of the node's disk has ended well."""

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: Node) -> None:
        """A granted vote (not a pre-vote) leaves the node."""

    def led(self, node: Node) -> None:
        """The node leads from now on."""

    def moved(self, node: Node, high_watermark: Offset, leads: bool) -> None:
        """The node's high watermark moved (a leader publishes it)."""

    def committed(self, node: Node, batch: Batch) -> None:
        """The node applies a committed batch."""

    def acknowledged(self, node: Node, write: str, offset: Offset) -> None:
        """A client is told that its write is committed."""

    def sending(self, node: Node, request: Request) -> None:
        """A request to another node leaves."""

    def replying(self, node: Node, response: Response) -> None:
        """An answer to another node leaves, not filled in yet."""

    def wished(self, node: Node, wish: Wish) -> None:
        """A request for other voters reached the node."""

    def granted(self, node: Node, wish: Wish, response: Response) -> None:
        """Its answer leaves."""

    def refused(self, node: Node, write: str) -> None:
        """A client is told that its write was not taken."""

    def applied(self, node: Node) -> None:
        """The node has applied everything that it knows to be committed."""

    def estranged(self, node: Node, said: dict[str, object]) -> None:
        """The node says that another one is of another quorum."""

    def finished(self) -> None:
        """The world has come to rest, the core healed."""


HOOKS = tuple(name for name in vars(Invariant) if name[0] != "_" and name not in ("name", "fail"))


def listen(listener: Invariant, all_: list[Invariant]) -> None:
    """Each hook of `listener` calls those of them who override it."""
    for hook in HOOKS:
        plain = getattr(Invariant, hook)
        heard = [getattr(one, hook) for one in all_ if getattr(type(one), hook) is not plain]
        setattr(listener, hook, heard[0] if len(heard) == 1 else _each(heard))


def _each(heard: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        for one in heard:
            one(*arguments)

    return call
