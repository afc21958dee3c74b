"""This controller's registration: what it is, where it listens, what it supports (KIP-919).

Every start is another incarnation, and registers with the active controller until the metadata says so.
When the metadata then names another incarnation, a second process runs under this node's id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from barnabas.controller.feature_levels import METADATA_VERSION, supported
from barnabas.controller.image import MetadataImage
from barnabas.errors import BarnabasError
from barnabas.model import Endpoint, NodeId, ReplicaKey, Uuid
from barnabas.ports import Randomness
from barnabas.raft.voters import VoterSet
from barnabas.server.observe import events
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import (
    ControllerRegistrationRequest,
    ControllerRegistrationRequestFeature,
    ControllerRegistrationRequestListener,
)

__all__ = ["Registration", "registered", "warn_of_other_disk"]

TWIN = events.register(
    "quorum.twin",
    logging.ERROR,
    "another process registered as this controller: two nodes have this node.id",
)
REMOVED = events.register(
    "quorum.registration-removed",
    logging.WARNING,
    "somebody removed the registration of this controller, which runs: it registers again",
)
OTHER_DISK = events.register(
    "quorum.other-disk",
    logging.WARNING,
    "the voters name this node with another disk: it follows, and votes only after it is added",
)
WAITS = events.register("quorum.registration-waits", logging.DEBUG, "this controller is not registered yet")

_FIRST_LEVEL = 15
"""metadata.version (3.7-IV0) from which controllers register."""
_PAUSE_S, _LONGEST_PAUSE_S = 0.02, 2.0
_PLAINTEXT = 0


class Registration:
    """One per start.  `done(image)` says whether the metadata knows this very process."""

    __slots__ = ("_endpoints", "_node_id", "_protocol", "_random", "_seen", "_task", "incarnation")

    def __init__(
        self, node_id: NodeId, endpoints: tuple[Endpoint, ...], protocol: int, random: Randomness
    ) -> None:
        """`protocol` is Kafka's number for that of the controllers' listeners."""
        self._node_id = node_id
        self._endpoints = endpoints
        self._protocol = protocol
        self._random = random
        self._seen = False
        self._task: asyncio.Task[None] | None = None
        self.incarnation: Uuid = random.uuid()

    def __repr__(self) -> str:
        return f"<Registration of {self._node_id} as {self.incarnation}>"

    def request(self) -> ControllerRegistrationRequest:
        """What the active controller is told."""
        return ControllerRegistrationRequest(
            controller_id=self._node_id,
            incarnation_id=self.incarnation,
            zk_migration_ready=False,
            listeners=[
                ControllerRegistrationRequestListener(
                    name=e.listener, host=e.host, port=e.port, security_protocol=self._protocol
                )
                for e in self._endpoints
            ],
            features=[
                ControllerRegistrationRequestFeature(
                    name=name, min_supported_version=low, max_supported_version=high
                )
                for name, (low, high) in supported().items()
            ],
        )

    def done(self, image: MetadataImage) -> bool:
        """Whether nothing is left to do: registered, or the cluster is from before registrations."""
        own = image.controllers.get(self._node_id)
        if own is not None and own.incarnation == self.incarnation:
            self._seen = True
            return True
        return 0 < image.feature(METADATA_VERSION) < _FIRST_LEVEL

    def look(self, image: MetadataImage) -> bool:
        """Return whether this process was registered and somebody removed that: it runs, so it registers again.

        Where the metadata name another process now, say so.
        """
        was = self._seen
        if self.done(image) or not was:
            return False
        self._seen = False
        removed = self._node_id not in image.controllers
        events.emit(REMOVED if removed else TWIN, node=self._node_id)
        return removed

    def begin(
        self, send: Callable[[Message], Awaitable[Message]], image: Callable[[], MetadataImage]
    ) -> None:
        """Register through `send` until it is done, in a task of its own."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run(send, image))

    def stop(self) -> None:
        """Give it up."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(
        self, send: Callable[[Message], Awaitable[Message]], image: Callable[[], MetadataImage]
    ) -> None:
        pause = _PAUSE_S
        while not self.done(image()):
            try:
                await send(self.request())
            except BarnabasError as error:
                events.emit(WAITS, error=error)
            except Exception as error:  # a defect: it is told, and a voter that is not registered still votes
                events.emit(events.TASK_FAILED, task="register this controller", error=error)
            await asyncio.sleep(pause * self._random.uniform(0.8, 1.2))
            pause = min(2 * pause, _LONGEST_PAUSE_S)


def warn_of_other_disk(key: ReplicaKey, voters: VoterSet) -> None:
    """A voter with our id and another directory id is this node before its disk was replaced: say so."""
    entry = voters.get(key.id)
    if entry is not None and not voters.has(key):
        command = f"if the old disk is lost: barnabas quorum replace --node {key.id}"
        events.emit(OTHER_DISK, voter=str(entry.key), ours=str(key), next=command)


def registered(image: MetadataImage) -> tuple[tuple[NodeId, tuple[Endpoint, ...]], ...]:
    """Where the registered controllers listen."""
    return tuple(
        (controller.id, tuple(Endpoint(e.listener, e.host, e.port) for e in controller.endpoints))
        for controller in image.controllers.values()
    )
