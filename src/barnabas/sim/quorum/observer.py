"""The hooks of an observer: everything a node does that an invariant may be about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from barnabas.model import Offset, ReplicaKey
from barnabas.raft.entries import Batch, SnapshotId
from barnabas.raft.messages import Request, Response
from barnabas.sim.quorum.requests import ChangeAsked

__all__ = ["Observer", "listen"]

N = TypeVar("N")
"""The type of node that is observed."""


class Observer(Generic[N]):
    """A node calls these.  An observer overrides what it wants to hear of."""

    def started(self, node: N) -> None:
        """The node opened its directory; nothing was stepped yet."""

    def stepped(self, node: N) -> None:
        """The node took a turn, and its log (its end, what is synced, its snapshots) has changed."""

    def appended(self, node: N, batch: Batch) -> None:
        """A batch stands in the node's log (not synced)."""

    def truncating(self, node: N, end_offset: Offset) -> None:
        """The node is about to cut its log."""

    def installing(self, node: N, snapshot: SnapshotId) -> None:
        """The node is about to replace its log by a snapshot."""

    def installed(self, node: N) -> None:
        """It has."""

    def synced(self, node: N) -> None:
        """A job of the node's disk has ended well."""

    def voted(self, voter: ReplicaKey, epoch: int, candidate: ReplicaKey, node: N) -> None:
        """A granted vote (not a pre-vote) leaves the node."""

    def led(self, node: N) -> None:
        """The node leads from now on."""

    def moved(self, node: N, high_watermark: Offset, leads: bool) -> None:
        """The node's high watermark moved (a leader publishes it)."""

    def committed(self, node: N, batch: Batch) -> None:
        """The node applies a committed batch."""

    def acknowledged(self, node: N, write: str, offset: Offset) -> None:
        """A client is told that its write is committed."""

    def sending(self, node: N, request: Request) -> None:
        """A request to another node leaves."""

    def arrived(self, node: N, request: Request) -> None:
        """A request of another node has reached this one, which may be paused."""

    def replying(self, node: N, response: Response) -> None:
        """An answer to another node leaves, not filled in yet."""

    def change_asked(self, node: N, change: ChangeAsked) -> None:
        """A request for other voters reached the node."""

    def change_answered(self, node: N, change: ChangeAsked, response: Response) -> None:
        """Its answer leaves."""

    def refused(self, node: N, write: str) -> None:
        """A client is told that its write was not taken."""

    def applied(self, node: N) -> None:
        """The node has applied everything that it knows to be committed."""

    def estranged(self, node: N, said: dict[str, object]) -> None:
        """The node says that another one is of another quorum."""

    def left(self, node: N) -> None:
        """The node leads no more, because its own removal is committed."""

    def finished(self) -> None:
        """The world has come to rest, the core healed."""


HOOKS = tuple(name for name in vars(Observer) if name[0] != "_")


def listen(listener: Observer[N], all_: Sequence[Observer[N]]) -> None:
    """Each hook of `listener` calls those of `all_` that override it."""
    for hook in HOOKS:
        plain = getattr(Observer, hook)
        heard = [getattr(one, hook) for one in all_ if getattr(type(one), hook) is not plain]
        setattr(listener, hook, heard[0] if len(heard) == 1 else _each(heard))


def _each(heard: list[Callable[..., None]]) -> Callable[..., None]:
    def call(*arguments: object) -> None:
        for one in heard:
            one(*arguments)

    return call
