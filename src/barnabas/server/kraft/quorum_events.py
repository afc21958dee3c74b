"""What the core of the quorum reports to an operator, as events; most of them are for close inspection."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from barnabas.model import METADATA_PARTITION, ReplicaKey
from barnabas.ports import Clock
from barnabas.raft.describe import Description
from barnabas.raft.effects import Event
from barnabas.raft.roles import Follower, Leader
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.storage import MetadataStore
from barnabas.server.observe import events

__all__ = ["Leaderless", "missing", "names_of", "tell", "tell_opened", "way_out"]

RECOVERED = events.register("quorum.recovered", logging.INFO, "the metadata log is open")
ACTIVE = events.register("quorum.active", logging.INFO, "this node is the active controller")
LEADER = events.register("quorum.leader", logging.INFO, "the quorum has another leader")
WAITS = events.register("quorum.waits", logging.INFO, "this node looks for the quorum's leader")
VOTERS = events.register("quorum.voters", logging.INFO, "the set of voters changed")
SNAPSHOT = events.register("quorum.snapshot", logging.INFO, "a metadata snapshot was written")
CLEANED = events.register("quorum.cleaned", logging.INFO, "metadata that a snapshot covers were deleted")
FAILED = events.register("quorum.failed", logging.ERROR, "the quorum cannot continue; this node stops")
CUT = events.register("quorum.cut", logging.WARNING, "the torn end of the metadata log was truncated")
BOOK_UNREAD = events.register(
    "quorum.endpoints-unread",
    logging.WARNING,
    "what this node had written down of the others' addresses is of no use; it asks for them again",
)
OUTDATED = events.register(
    "quorum.bootstrap-outdated",
    logging.WARNING,
    "no configured address answers: this node found its quorum by what it had written down",
)
STEP = events.register("quorum.step", logging.DEBUG, "the quorum reports an internal step")
REJECTED = events.register(
    "quorum.snapshot-rejected", logging.WARNING, "a downloaded snapshot cannot be read; it is asked for again"
)
UNREADABLE = events.register(
    "quorum.snapshot-unreadable",
    logging.ERROR,
    "no download can be read: check the leader's disk, and this node's",
)
STALE = events.register(
    "quorum.incarnation-refused",
    logging.WARNING,
    "a node speaks for a quorum that has since been formed again by force",
)
FOREIGN = events.register(
    "quorum.incarnation-foreign", logging.WARNING, "a node with records of the old quorum was refused"
)
SUPERSEDED = events.register(
    "quorum.incarnation-over", logging.WARNING, "the quorum was formed again by force, without this node"
)
SECOND = events.register(
    "quorum.second-quorum",
    logging.ERROR,
    "a node with this cluster's id belongs to another quorum; this node ignores it",
)
UNBELIEVABLE = events.register(
    "quorum.incarnation-unbelievable", logging.WARNING, "a node names a quorum generation that is impossible"
)
STATIC = events.register(
    "quorum.static-voters-left",
    logging.WARNING,
    "controller.quorum.voters is set, but has no effect: the voters change at run time, by the metadata log",
)
WITHOUT_ROLE = events.register(
    "quorum.voter-without-role",
    logging.WARNING,
    "a voter runs without the controller role: it counts as a dead one, and the majority keeps its size",
)
SET_ASIDE = events.register(
    "quorum.set-aside",
    logging.ERROR,
    "the disk damaged metadata: they were set aside, and the leader gives them again",
)
LACKS = events.register(
    "quorum.entries-lost",
    logging.ERROR,
    "the disk lost the end of the metadata log, which had been synced",
)
WHOLE = events.register(
    "quorum.entries-back",
    logging.INFO,
    "a leader gave this node what the metadata log had lost: it may lead again",
)
FORGOT = events.register(
    "quorum.vote-forgotten",
    logging.WARNING,
    "quorum-state is older than what this node did: it votes in no epoch in which it may have voted",
)

_LOUD: Final = {
    "raft.voter.without-role": WITHOUT_ROLE,
    "raft.log.lacks": LACKS,
    "raft.log.whole-again": WHOLE,
    "raft.election-state.old": FORGOT,
    "raft.snapshot.rejected": REJECTED,
    "raft.snapshot.unreadable": UNREADABLE,
    "raft.incarnation.refused": STALE,
    "raft.incarnation.foreign": FOREIGN,
    "raft.incarnation.superseded": SUPERSEDED,
    "raft.incarnation.unbelievable": UNBELIEVABLE,
    "raft.stranger": SECOND,
    "raft.bootstrap.outdated": OUTDATED,
}
_WITHOUT_THEM: Final = "there is no other voter: this node leads without them"
_UNTIL_BACK: Final = "this node leads again when another leader gave it what was committed of them"


def tell(event: Event) -> None:
    """Write it down."""
    loud = _LOUD.get(event.name)
    if loud is not None:
        said: dict[str, Any] = dict(event.fields)
        if loud is WITHOUT_ROLE:
            id_ = said["voter"].id
            said["next"] = (
                f"start node {id_} with its controller role, or: barnabas quorum remove-controller -i {id_}"
            )
        elif loud is LACKS:
            said["log"] = METADATA_PARTITION
            said["then"] = _WITHOUT_THEM if said.pop("alone") else _UNTIL_BACK
        events.emit(loud, **said)
        return
    fields = " ".join(f"{name}={value}" for name, value in event.fields)
    events.emit(STEP, what=event.name, fields=fields)


def tell_opened(store: MetadataStore, static: VoterSet) -> None:
    """Say what was found in the directory.  `static`: the voters of the configuration."""
    if static.ids and store.log_view.kraft_version >= 1:
        servers = ",".join(f"{at.host}:{at.port}" for voter in static for at in voter.endpoints)
        then = f"replace it with controller.quorum.bootstrap.servers={servers}"
        events.emit(STATIC, voters=names_of(store.log_view.voters), configured=names_of(static), next=then)
    found, log = store.log.recovery, store.log
    if why := store.found.contacts_unread:
        events.emit(BOOK_UNREAD, directory=store.path, why=why)
    for one in store.found.set_aside:
        events.emit(SET_ASIDE, directory=store.path, what=one.what, why=one.why)
    if found.bytes_cut:
        events.emit(CUT, bytes=found.bytes_cut, at=found.cut_at, reason=found.reason)
    voters = names_of(store.log_view.voters)
    events.emit(RECOVERED, start=log.log_start_offset, end=log.log_end_offset, voters=voters)


def names_of(voters: VoterSet) -> str:
    """The ids of the voters, for an event."""
    return ",".join(str(key.id) for key in voters.keys) or "none"


LEADERLESS = events.register(
    "quorum.leaderless", logging.WARNING, "no leader is known; nothing can be changed until there is one"
)
IF_MOVED = "if a voter moved: barnabas quorum -C HOST:PORT set-endpoint --node ID --endpoint HOST:PORT"
FIRST_S, LONGEST_S = 4.0, 60.0
"""Seconds until the first line, which an election does not take, and between two lines at most."""


class Leaderless:
    """Since when there is no leader.  `leader_is` hears of every change; `describe` says who does not answer."""

    __slots__ = ("_clock", "_describe", "_follows", "_interval", "_loop", "_since", "_timer")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, clock: Clock, describe: Callable[[], Description]
    ) -> None:
        self._loop = loop
        self._clock = clock
        self._describe = describe
        self._since: float | None = None
        self._follows = False
        self._interval = FIRST_S
        self._timer: asyncio.TimerHandle | None = None

    def __repr__(self) -> str:
        return f"<Leaderless for {self.ms} ms>"

    @property
    def ms(self) -> int:
        """For so many milliseconds; -1: there is a leader."""
        return (
            -1 if self._since is None or self._look() else int((self._clock.now().mono - self._since) * 1000)
        )

    def hear(self, event: Event) -> None:
        """The role is another.  A follower that failed to be elected follows the leader that it lost again."""
        if event.name == "raft.role":
            role = dict(event.fields)["role"]
            self._follows = role == Follower.name
            if not self._look():
                self.leader_is(role == Leader.name or (self._follows and self._since is None))

    def _look(self) -> bool:
        """Whether this node follows a leader that answers; then the time without one is over."""
        seen = self._describe()
        found = self._follows and seen.leader_id is not None and seen.leader_id not in dict(seen.errors)
        if found:
            self.leader_is(True)
        return found

    def leader_is(self, known: bool) -> None:
        """A leader is known from now on, or is not."""
        if known:
            self.close()
            self._since, self._interval = None, FIRST_S
        elif self._since is None:
            self._since = self._clock.now().mono
            self._timer = self._loop.call_later(self._interval, self._tell)

    def _tell(self) -> None:
        if self._look():
            return
        seen = self._describe()
        who = missing(seen) or "unknown"
        events.emit(LEADERLESS, seconds=self.ms // 1000, missing=who, next=way_out(seen) or IF_MOVED)
        self._interval = min(2 * self._interval, LONGEST_S)
        self._timer = self._loop.call_later(self._interval, self._tell)

    def close(self) -> None:
        """The node stops, or a leader is there: say no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def missing(quorum: Description) -> str:
    """`voter 1 does not answer (it refuses); ...`: the voters that gave this node no answer, by reason.

    Before them, voters whose own voter set is another; after them, bootstrap servers that gave no answer of use.
    """
    said = [_differs(quorum.voters, *both) for both in quorum.differing]
    ids = set(quorum.voters.ids) - {candidate.id for candidate, _ in quorum.differing}
    by_reason: dict[str, list[str]] = {}
    for node_id, reason in quorum.errors:
        if node_id in ids:
            by_reason.setdefault(reason, []).append(str(node_id))
    said += [_sentence(nodes, reason) for reason, nodes in by_reason.items()]
    said += [f"bootstrap server {at.host}:{at.port} is of no help ({why})" for at, why in quorum.servers]
    return "; ".join(said)


def way_out(quorum: Description) -> str:
    """Return the next step where what is missing cannot come by itself; empty: start or find the voters."""
    if quorum.differing:
        return (
            "give all controllers one list, on the emptied metadata directory of each with another: "
            "barnabas storage format -c FILE -t CLUSTER_ID --initial-controllers ID@HOST:PORT:DIRECTORY_ID,..."
        )
    if quorum.servers and not quorum.voters.ids:
        return "name running controllers in controller.quorum.bootstrap.servers, and start this node again"
    return ""


def _differs(voters: VoterSet, candidate: ReplicaKey, named: ReplicaKey) -> str:
    """`the voter sets differ: here the voters are 1-A and 2-B, but 2-C asks 1-D for its vote`."""
    ours = " and ".join(str(voter.key) for voter in voters if voter.key.id in (candidate.id, named.id))
    return f"the voter sets differ: here the voters are {ours}, but {candidate} asks {named} for its vote"


def _sentence(nodes: list[str], reason: str) -> str:
    if len(nodes) == 1:
        return f"voter {nodes[0]} does not answer ({reason})"
    return f"voters {', '.join(nodes[:-1])} and {nodes[-1]} do not answer ({reason})"
