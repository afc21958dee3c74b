"""Reports to the controller in which directories the replicas of this node are (KIP-858).

This is Kafka's AssignReplicasToDirs.  The controller must know the directories, so that after a disk failure
it takes away from this node the replicas of that disk, and nothing else.  One request is in flight at a time;
a report that failed is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.model import DirectoryId, Now, TopicId

if TYPE_CHECKING:
    from barnabas.broker.ports import BrokerHost

__all__ = ["Assignments", "Replica"]

Replica = tuple[TopicId, int]

_TOLD_AT_ONCE = 200
_RETRY_S = 0.5
_GONE = (
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""The controller knows no such replica: nothing is left to report."""


class Assignments:
    """The reports that wait, and those in flight."""

    __slots__ = ("_asked", "_host", "_retry_at", "_then", "_wanted")

    def __init__(self, host: BrokerHost) -> None:
        self._host = host
        self._wanted: dict[Replica, DirectoryId] = {}
        self._then: dict[Replica, Callable[[], None]] = {}
        self._asked: dict[Replica, DirectoryId] | None = None
        self._retry_at = inf

    def want(self, replica: Replica, directory: DirectoryId, then: Callable[[], None] | None = None) -> None:
        """Report that a replica lies there; `then` is called when the controller knows."""
        self._wanted[replica] = directory
        self._then.pop(replica, None)
        if then is not None:
            self._then[replica] = then

    def forget(self, replica: Replica) -> None:
        """Drop the report of a replica that is gone."""
        self._wanted.pop(replica, None)
        self._then.pop(replica, None)

    def send(self) -> None:
        """Send what waits, unless a request is in flight."""
        if self._asked is None and self._wanted and self._retry_at == inf:
            self._asked = dict(islice(self._wanted.items(), _TOLD_AT_ONCE))
            for replica in self._asked:
                del self._wanted[replica]
            told = [(topic, index, directory) for (topic, index), directory in self._asked.items()]
            self._host.assign_directories(told)

    def answered(self, results: Mapping[Replica, ErrorCode] | None, now: Now) -> None:
        """The controller's answer by replica; None: it could not be asked."""
        asked, self._asked = self._asked or {}, None
        for replica, directory in asked.items():
            if replica in self._wanted:
                continue  # it lies elsewhere by now
            code = ErrorCode.NONE if results is None else results.get(replica, ErrorCode.UNKNOWN_SERVER_ERROR)
            if results is not None and code is ErrorCode.NONE:
                if (then := self._then.pop(replica, None)) is not None:
                    then()
            elif results is None or code not in _GONE:
                self._wanted[replica] = directory
                self._retry_at = now.mono + _RETRY_S
            else:
                self._then.pop(replica, None)
        self.send()

    def tick(self, now: Now) -> None:
        """Send again what could not be sent."""
        if now.mono >= self._retry_at:
            self._retry_at = inf
            self.send()

    def next_deadline(self) -> float | None:
        """When `tick` has something to do."""
        return None if self._retry_at == inf else self._retry_at

    def __repr__(self) -> str:
        return f"<Assignments wanted={len(self._wanted)} asked={len(self._asked or ())}>"
