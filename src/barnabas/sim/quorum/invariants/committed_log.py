"""Everything that was decided, as the whole world saw it: every committed batch once, by its offset.

The first node that calls a batch committed writes it here; every other node that does so later, in any run,
must agree.  Voter sets are kept by the offset of their record.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.model import Epoch, Offset
from barnabas.raft.entries import Batch, KraftVersionEntry, Note, Opaque, VotersEntry
from barnabas.raft.membership.target import TARGET
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import metadata_of
from barnabas.wire.metadata import ConfigRecord

__all__ = ["FEATURES", "METADATA", "SETTINGS_OF", "CommittedLog", "Decided", "text_of"]

METADATA = "data/__cluster_metadata-0"
"""The directory of the quorum's log, on every node's disk."""
FEATURES = "features"
"""The name of the first write, which finalizes the features of the cluster."""
SETTINGS_OF = "sim"
"""What the workload writes are settings of the broker with this name."""


class Decided(NamedTuple):
    """One committed batch."""

    epoch: Epoch
    end_offset: Offset
    text: str
    leader_epoch: Epoch
    """The epoch of the leader that committed it: its own, or a later one."""


class State(NamedTuple):
    """What the committed records say up to an offset."""

    settings: dict[str, str]
    notes: dict[str, str]


_NOTHING = State({}, {})


class CommittedLog:
    """See the module."""

    __slots__ = (
        "acknowledged",
        "batches",
        "changes",
        "end",
        "kraft_version",
        "last_epoch",
        "sets",
        "states",
        "targets",
        "writes",
    )

    def __init__(self) -> None:
        self.batches: dict[Offset, Decided] = {}
        self.states: dict[Offset, State] = {0: _NOTHING}
        """What an image of everything below that offset must say."""
        self.end: Offset = 0
        self.last_epoch: Epoch = -1
        self.sets: list[tuple[Offset, VoterSet]] = []
        self.targets: list[str | None] = []
        """Every committed target set, None where there was none any more."""
        self.kraft_version = 0
        self.changes = 0
        """Committed changes of the key set."""
        self.writes = 0
        self.acknowledged: dict[str, Offset] = {}
        """What a client was told is written, and where."""

    def __repr__(self) -> str:
        return f"<CommittedLog end={self.end} changes={self.changes} writes={self.writes}>"

    def commit(self, batch: Batch, leader_epoch: Epoch) -> str | None:
        """A node of this epoch says that this is committed.  What is wrong with that, if anything."""
        text = text_of(batch)
        known = self.batches.get(batch.base_offset)
        if known is not None:
            if known.epoch == batch.epoch and known.text == text:
                return None
            return f"offset {batch.base_offset} is {known} and also {(batch.epoch, text)}"
        if batch.base_offset != self.end:
            return f"{batch} is committed, but the decided log ends at {self.end}"
        self.batches[batch.base_offset] = Decided(batch.epoch, batch.end_offset, text, leader_epoch)
        state = self.states.get(self.end, _NOTHING)  # (after a recovery by force it begins in the middle)
        self.states[batch.end_offset] = _next_state(state, batch)
        self.end, self.last_epoch = batch.end_offset, batch.epoch
        for entry in batch.entries:
            if isinstance(entry, VotersEntry):
                before = self.sets[-1][1] if self.sets else None
                if before is not None and before.keys_changed(entry.voters):
                    self.changes += 1
                self.sets.append((batch.base_offset, entry.voters))
            elif isinstance(entry, Opaque):
                self.writes += 1
            elif isinstance(entry, KraftVersionEntry):
                self.kraft_version = entry.version
            elif isinstance(entry, Note) and entry.key == TARGET:
                self.targets.append(entry.value)
        return None


def _next_state(state: State, batch: Batch) -> State:
    if not any(isinstance(entry, (Note, Opaque)) for entry in batch.entries):
        return state
    settings, notes = dict(state.settings), dict(state.notes)
    for record in metadata_of(batch):
        if isinstance(record, ConfigRecord):
            values = settings if record.resource_name == SETTINGS_OF else notes
            if record.value is None:
                values.pop(record.name, None)
            else:
                values[record.name] = record.value
    return State(settings, notes)


def text_of(batch: Batch) -> str:
    """A batch in words that are equal only for equal batches."""
    words = []
    for entry in batch.entries:
        if isinstance(entry, Opaque):
            payload = entry.payload
            assert isinstance(payload, tuple | list)
            words += [getattr(record, "value", None) or str(record) for record in payload]
        elif isinstance(entry, VotersEntry):
            words.append(f"voters {' '.join(f'{v.key}@{v.endpoints[0].port}' for v in entry.voters)}")
        elif isinstance(entry, Note):
            words.append(f"{entry.key}={entry.value}")
        else:
            words.append(str(entry))
    return " ".join(words)
