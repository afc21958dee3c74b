"""The driver's fixed sequence: collect, step, persist, send, apply.

The server and the simulator run this same class over their own log and network, so the simulator tests the
sequence itself.  `persist` must come before `send`: whatever a message promises must be in the files before the
message leaves.  (It must be written; where the promise is durability, the core itself waits for the sync.)  A
fetch answer is read from a log that already has the batch it names.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from barnabas.model import Now
from barnabas.raft.discovery.book import Contact
from barnabas.raft.effects import (
    Append,
    ApplyEffect,
    Effect,
    InstallSnapshot,
    Reply,
    SaveBook,
    SaveElection,
    Send,
    Truncate,
    WriteSnapshot,
)
from barnabas.raft.entries import Batch
from barnabas.raft.messages import (
    ElectionSaved,
    Message,
    Persisted,
    SnapshotInstalled,
    SnapshotRejected,
    SyncTicket,
)
from barnabas.raft.node import RaftNode

__all__ = ["Driver", "Outputs", "Storage"]


class Storage(Protocol):
    """The log and the small files.  Any error that leaves these methods must stop the node."""

    def append(self, batch: Batch) -> None:
        """Write the batch at the end of the log; not synced."""
        ...

    def truncate(self, end_offset: int) -> None:
        """Forget everything from there on."""
        ...

    def start_sync(self, ticket: SyncTicket) -> None:
        """Make all that was appended so far durable; then `receive(Persisted(*ticket))`, at once or later."""
        ...

    def save_election(self, effect: SaveElection) -> None:
        """Make it durable; then `receive(ElectionSaved(effect.serial))`, at once or later, in order."""
        ...

    def save_book(self, contacts: tuple[Contact, ...]) -> None:
        """Write the addresses down; nobody waits for it, and the newest are enough."""
        ...

    def write_snapshot(self, effect: WriteSnapshot) -> None:
        """Write a piece of a snapshot being downloaded; position 0 begins the file anew."""
        ...

    def install_snapshot(self, effect: InstallSnapshot) -> None:
        """Sync and freeze it, begin the log anew at its end, durably; then receive(SnapshotInstalled).

        Or receive(SnapshotRejected), where what came cannot be read.
        """
        ...


class Outputs(Protocol):
    """The network, and the callers that wait for decisions."""

    def send(self, effect: Send) -> None: ...

    def reply(self, effect: Reply) -> None:
        """Answer; where the response has a `read`, fill it in from the log now."""
        ...

    def apply(self, effect: ApplyEffect) -> None: ...


class Driver:
    """Drives one `RaftNode`.  Not reentrant: `receive` may be called from anywhere, `run` from one place."""

    __slots__ = ("_inbox", "_syncing", "node", "outputs", "store")

    def __init__(self, node: RaftNode, store: Storage, outputs: Outputs) -> None:
        self.node = node
        self.store = store
        self.outputs = outputs
        self._inbox: deque[Message] = deque()
        self._syncing = False

    def __repr__(self) -> str:
        return f"<Driver {self.node!r} inbox={len(self._inbox)} syncing={self._syncing}>"

    def receive(self, message: Message) -> None:
        """Collect.  What the store says goes first: it is about the past."""
        if isinstance(message, (Persisted, ElectionSaved, SnapshotInstalled, SnapshotRejected)):
            self._inbox.appendleft(message)
        else:
            self._inbox.append(message)

    def next_deadline(self) -> float:
        return self.node.next_deadline()

    def run(self, now: Now) -> None:
        """Take every message that came, until none is left."""
        while self._inbox:
            effects: list[Effect] = []
            while self._inbox:
                message = self._inbox.popleft()
                if isinstance(message, Persisted):
                    self._syncing = False
                step = self.node.step(message, now)
                if step and any(isinstance(effect, (Truncate, InstallSnapshot)) for effect in step):
                    # Answers of before must read the log as it was before it is cut.
                    self._carry_out(effects)
                    effects = []
                effects += step
            self._carry_out(effects)

    def _carry_out(self, effects: list[Effect]) -> None:
        # Persist before send.
        self._persist(effects)
        self._send(effects)
        self._apply(effects)

    def _persist(self, effects: list[Effect]) -> None:
        store = self.store
        for effect in effects:
            match effect:
                case Append(batch):
                    store.append(batch)
                case Truncate(end_offset):
                    store.truncate(end_offset)
                case SaveElection():
                    store.save_election(effect)
                case SaveBook(contacts):
                    store.save_book(contacts)
                case WriteSnapshot():
                    store.write_snapshot(effect)
                case InstallSnapshot():
                    store.install_snapshot(effect)
        log_view = self.node.log_view
        if not self._syncing and log_view.persisted < log_view.end_offset:
            self._syncing = True
            store.start_sync(log_view.ticket)

    def _send(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.outputs.send(effect)
            elif isinstance(effect, Reply):
                self.outputs.reply(effect)

    def _apply(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, ApplyEffect):
                self.outputs.apply(effect)
