"""The address book: where each controller listens, as far as this node has heard.

Every controller enters itself when it starts, with the epoch it knows then and the number of its start; so what
it says now is newer than all it said before, and an entry is only ever replaced by a newer one.  What a voter
set of the log says is hearsay (`start` 0): anything that the node itself said counts more.

An address is a hint where to dial, and nothing else: whoever answers there must still be the replica that was
meant.  So a wrong entry costs a dial, never a vote or a record.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from barnabas.model import ZERO_UUID, Endpoint, Epoch, NodeId, ReplicaKey
from barnabas.raft.value import altered, value

__all__ = ["MOST_CONTACTS", "AddressBook", "Contact"]

MOST_CONTACTS = 64
"""Entries that a book keeps, and that are taken from one message."""
MOST_ENDPOINTS = 8
LONGEST_NAME = 255
LAST_START = 1 << 62
LAST_EPOCH = 1 << 31
FIRST_PORT, LAST_PORT = 1, 65_535


@value
class Contact:
    """Where a replica listens.  `start` numbers the starts of that node; 0: it did not say so itself."""

    key: ReplicaKey
    endpoints: tuple[Endpoint, ...]
    epoch: Epoch = 0
    start: int = 0

    @property
    def stamp(self) -> tuple[bool, Epoch, int]:
        """Of two entries the one with the greater stamp is newer."""
        return self.start > 0, self.epoch, self.start

    def endpoint(self, listener: str) -> Endpoint:
        """Its endpoint of that listener, or its first."""
        for endpoint in self.endpoints:
            if endpoint.listener == listener:
                return endpoint
        return self.endpoints[0]

    @property
    def is_sane(self) -> bool:
        """Whether it can be an entry at all, wherever it comes from."""
        return (
            0 <= self.key.id < 1 << 31
            and 0 <= self.epoch < LAST_EPOCH
            and 0 <= self.start < LAST_START
            and 0 < len(self.endpoints) <= MOST_ENDPOINTS
            and all(map(_is_sane, self.endpoints))
        )


def _is_sane(endpoint: Endpoint) -> bool:
    host = endpoint.host
    return (
        0 < len(host) <= LONGEST_NAME
        and host.isprintable()
        and not any(map(str.isspace, host))
        and len(endpoint.listener) <= LONGEST_NAME
        and endpoint.listener.isprintable()
        and FIRST_PORT <= endpoint.port <= LAST_PORT
    )


class AddressBook:
    """Contacts by replica.  `take` is the one way in; `is_changed` says that it should be written down again."""

    __slots__ = ("_contacts", "_own", "is_changed")

    def __init__(self, own: ReplicaKey, contacts: Iterable[Contact] = ()) -> None:
        self._own = own
        self._contacts: dict[ReplicaKey, Contact] = {}
        for contact in contacts:
            if contact.is_sane and len(self._contacts) < MOST_CONTACTS:
                self._contacts[contact.key] = contact
        self.is_changed = False

    def __repr__(self) -> str:
        return f"<AddressBook {' '.join(str(key.id) for key in sorted(self._contacts))}>"

    def __len__(self) -> int:
        return len(self._contacts)

    def __iter__(self) -> Iterator[Contact]:
        """All entries, in the order of their replicas."""
        return iter([self._contacts[key] for key in sorted(self._contacts)])

    @property
    def own(self) -> Contact | None:
        """This node's own entry."""
        return self._contacts.get(self._own)

    def enter(self, endpoints: tuple[Endpoint, ...], epoch: Epoch, wall_ms: int) -> None:
        """This node starts: enter it, newer than whatever it said of itself before."""
        before = self.own
        start = max(1, wall_ms, before.start + 1 if before else 0)
        contact = Contact(self._own, endpoints, max(epoch, before.epoch if before else 0), start)
        if contact.is_sane:
            self._contacts[self._own] = contact
            self.is_changed = True

    def take(self, contact: Contact, voters: Collection[ReplicaKey] = ()) -> bool:
        """Take an entry if it is newer than the one there is.  Returns whether it says another address.

        An entry of this node itself that it did not make is contradicted: this node enters itself again,
        newer.  A full book keeps voters, and of the others the newest.
        """
        if not contact.is_sane:
            return False
        known = self._contacts.get(contact.key)
        if contact.key == self._own:
            if known is not None and contact.stamp >= known.stamp and contact != known:
                start = max(known.start, contact.start) + 1
                self._contacts[self._own] = altered(known, epoch=contact.epoch, start=start)
                self.is_changed = True
            return False
        if known is not None and contact.stamp <= known.stamp:
            return False
        if known is None and len(self._contacts) >= MOST_CONTACTS and not self._make_room(contact, voters):
            return False
        self._contacts[contact.key] = contact
        self.is_changed = True
        return known is None or known.endpoints != contact.endpoints

    def _make_room(self, contact: Contact, voters: Collection[ReplicaKey]) -> bool:
        others = [c for c in self if c.key not in voters and c.key != self._own]
        if contact.key not in voters:
            others = [c for c in others if c.stamp < contact.stamp]
        if not others:
            return False
        del self._contacts[min(others, key=lambda c: (c.stamp, c.key)).key]
        return True

    def of(self, key: ReplicaKey) -> Contact | None:
        """The entry of a replica; where its disk is not known (fixed voters), the newest of that node."""
        if key.directory_id != ZERO_UUID:
            return self._contacts.get(key)
        named = [contact for contact in self if contact.key.id == key.id]
        return max(named, key=lambda contact: contact.stamp, default=None)

    def others(self) -> list[tuple[NodeId, Contact]]:
        """Everybody but this node, by id."""
        return [(contact.key.id, contact) for contact in self if contact.key != self._own]
