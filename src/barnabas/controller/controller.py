"""The active controller: decide, and remember what was decided until the quorum has committed it.

    decision = controller.decide(request, version, now, next_offset)
    ... the quorum appends decision.records at next_offset ...
    controller.accepted(decision, next_offset, epoch, now)
    ... once they are committed, decision.answer leaves ...

The leading image is the committed one plus everything appended since.  When leadership is lost it is
thrown away; whoever leads next starts from the committed image.  No clock, no I/O: the same on a node and
in the simulator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from barnabas.config import Config
from barnabas.controller.deciders import Decider, decider_of
from barnabas.controller.decisions import brokers
from barnabas.controller.decisions.maintenance import Maintenance
from barnabas.controller.feature_levels import ELR_FEATURE, bootstrap_levels, bootstrap_records
from barnabas.controller.image import RESOURCE_BROKER, MetadataImage
from barnabas.controller.replay import Replay
from barnabas.controller.view import BrokerContact, Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.results import finished
from barnabas.model import Epoch, NodeId, Now, Offset
from barnabas.ports import Randomness
from barnabas.wire.codec.message import Message, MetadataRecord
from barnabas.wire.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
)

__all__ = ["Controller", "ControllerStatistics"]

BOOTSTRAP_TRANSACTION = "Bootstrap records"


class ControllerStatistics(NamedTuple):
    """Counts since this node became the active controller."""

    decided: int
    refused: int
    fenced_by_silence: int


class Controller:
    """Decides for as long as this node leads the quorum."""

    __slots__ = (
        "_contacts",
        "_decided",
        "_deciders",
        "_maintenance",
        "_refused",
        "_replay",
        "_silenced",
        "_voters",
        "config",
        "randomness",
    )

    def __init__(
        self,
        config: Config,
        randomness: Randomness,
        committed: Replay,
        now: Now,
        voters: Callable[[], tuple[NodeId, ...]] | None = None,
    ) -> None:
        """`voters` returns the present voters of the quorum."""
        self.config = config
        self.randomness = randomness
        self._voters = voters
        self._replay = committed.copy()
        self._contacts: dict[NodeId, BrokerContact] = brokers.presumed_contacts(committed.image, now)
        self._deciders: dict[int, Decider] = {}
        self._decided = self._refused = self._silenced = 0
        self._maintenance = Maintenance(config, now)

    def __repr__(self) -> str:
        return f"<Controller leading={self.image.offset} brokers={len(self.image.brokers)}>"

    @property
    def image(self) -> MetadataImage:
        """The leading image: committed or not."""
        return self._replay.image

    def decide(
        self, request: Message, version: int, now: Now, next_offset: Offset, sender: str = ""
    ) -> Decision:
        """What `request` comes to, if its records were appended at `next_offset`.  Touches nothing.

        Raises KafkaError when the request is refused as a whole (UNSUPPORTED_VERSION: not a request for
        the controller).
        """
        return finished(self.decide_in_steps(request, version, now, next_offset, sender))

    def decide_in_steps(
        self, request: Message, version: int, now: Now, next_offset: Offset, sender: str = ""
    ) -> Deciding:
        """The same, a partition or so at a time.  Nothing may be `accepted` or `appended` meanwhile."""
        decider = self._decider(-1 if request.KEY is None else request.KEY, request.NAME)
        try:
            decision = decider(self._view(version, now, next_offset, sender), request)
            if not isinstance(decision, Decision):
                decision = yield from decision
        except KafkaError:
            self._refused += 1
            raise
        self._decided += 1
        return decision

    def accepted(self, decision: Decision, offset: Offset, epoch: Epoch, now: Now) -> None:
        """Apply a decision whose records were appended at `offset` (without records: only the contacts)."""
        self.appended(decision.records, offset, epoch, now)
        for broker, contact in decision.contacts.items():
            if contact is None:
                self._contacts.pop(broker, None)
            else:
                self._contacts[broker] = contact

    def appended(self, records: list[MetadataRecord], offset: Offset, epoch: Epoch, now: Now) -> None:
        """Replay records that were appended at `offset` into the leading image."""
        if records:
            self._replay.apply(records, offset=offset, epoch=epoch, timestamp_ms=now.wall_ms)
            self._replay.take_delta()
            self._maintenance.appended(records, now)

    def due_records(self, now: Now, next_offset: Offset) -> list[MetadataRecord]:
        """Records that no request asks for: they fence silent brokers and hold the elections that are due.

        [] when nothing is due.  Call it about every second.
        """
        return finished(self.due_in_steps(now, next_offset)).records

    def due_in_steps(self, now: Now, next_offset: Offset) -> Deciding:
        """The same as a decision, a partition or so at a time."""
        view = self._view(0, now, next_offset)
        records = yield from brokers.fence_silent_broker(view)
        self._silenced += bool(records)
        if not records:
            records = yield from self._maintenance.records(view)
        return Decision(NoOpRecord(), records)  # nobody waits for the answer

    def is_due(self, now: Now) -> bool:
        """Whether `due_records` may find something."""
        view = self._view(0, now, -1)
        return brokers.silent_broker(view) is not None or self._maintenance.due(now)

    def first_records(self, bootstrap: Sequence[MetadataRecord] = ()) -> list[MetadataRecord]:
        """What a new active controller writes before anything else; [] when nothing is due.

        On an empty log, in one transaction (KIP-868): the records that `storage format` left (without
        any, the features of this release) and, with eligible leader replicas, min.insync.replicas for all
        brokers, so that every later change of it is seen.  Else the end of a transaction that its
        predecessor left open.
        """
        if self._replay.in_transaction:
            return [AbortTransactionRecord(reason="a new controller took over")]
        if self.image.features:
            return []
        bootstrap = bootstrap or bootstrap_records(bootstrap_levels())
        records: list[MetadataRecord] = [BeginTransactionRecord(name=BOOTSTRAP_TRANSACTION), *bootstrap]
        if any(
            isinstance(r, FeatureLevelRecord) and r.name == ELR_FEATURE and r.feature_level for r in bootstrap
        ):
            records.append(
                ConfigRecord(
                    resource_type=RESOURCE_BROKER,
                    resource_name="",
                    name="min.insync.replicas",
                    value=str(self.config.int("min.insync.replicas")),
                )
            )
        records.append(EndTransactionRecord())
        return records

    def statistics(self) -> ControllerStatistics:
        """Counts since this node became active."""
        return ControllerStatistics(self._decided, self._refused, self._silenced)

    def contact(self, broker: NodeId) -> BrokerContact | None:
        """What is known of a broker's session."""
        return self._contacts.get(broker)

    def _decider(self, key: int, name: str) -> Decider:
        decider = self._deciders.get(key)
        if decider is None:
            decider = decider_of(key)
            if decider is None:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"the controller does not decide {name}")
            self._deciders[key] = decider
        return decider

    def _view(self, version: int, now: Now, next_offset: Offset, sender: str = "") -> View:
        return View(
            image=self._replay.image,
            config=self.config,
            randomness=self.randomness,
            contacts=self._contacts,
            now=now,
            next_offset=next_offset,
            version=version,
            voters=None if self._voters is None else self._voters(),
            sender=sender,
        )
