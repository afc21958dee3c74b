"""The committed metadata of a node: replayed batch by batch into one image, and told to whoever reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from barnabas.controller.image import ImageDelta, MetadataImage
from barnabas.controller.replay import Replay
from barnabas.model import Offset
from barnabas.server.kraft.records import metadata_of
from barnabas.server.kraft.storage import Uncommitted

__all__ = ["CommittedImage", "replace_image"]


class CommittedImage:
    """`apply(batches)` as they are committed; the image changes in place and stays the same object."""

    __slots__ = ("_callbacks", "_waiters", "replay")

    def __init__(self, image: MetadataImage) -> None:
        self.replay = Replay(image)
        self._callbacks: list[Callable[[ImageDelta], None]] = []
        self._waiters: list[tuple[Offset, asyncio.Future[None]]] = []

    @property
    def image(self) -> MetadataImage:
        """Everything committed."""
        return self.replay.image

    def on_change(self, callback: Callable[[ImageDelta], None]) -> None:
        """Call `callback` after each commit that changed something a reader can see."""
        self._callbacks.append(callback)

    def apply(self, batches: Iterable[Uncommitted]) -> ImageDelta:
        """Replay committed batches, and tell what they changed."""
        replay = self.replay
        for batch, timestamp_ms, _ in batches:
            records = metadata_of(batch)
            if records:
                replay.apply(records, offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=timestamp_ms)
            else:
                replay.skip_to(batch.last_offset, batch.epoch, timestamp_ms)
        return self._tell(replay.take_delta())

    def replace(self, image: MetadataImage) -> ImageDelta:
        """A snapshot of the leader replaced the log: the image jumps."""
        committed = self.image
        delta = replace_image(committed, image)
        self.replay = Replay(committed)
        return self._tell(delta)

    def _tell(self, delta: ImageDelta) -> ImageDelta:
        if not delta.empty:
            for callback in self._callbacks:
                callback(delta)
        return delta

    async def reached(self, offset: Offset) -> None:
        """Wait until everything up to `offset` is in the image."""
        if self.image.offset < offset:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append((offset, waiter))
            await waiter

    def wake(self) -> None:
        """More is committed: those that wait for it may continue."""
        if self._waiters:
            reached, waiting = self.image.offset, self._waiters
            self._waiters = [(offset, waiter) for offset, waiter in waiting if offset > reached]
            for offset, waiter in waiting:
                if offset <= reached and not waiter.done():
                    waiter.set_result(None)

    def __repr__(self) -> str:
        return f"<CommittedImage {self.image.offset}>"


def replace_image(image: MetadataImage, newer: MetadataImage) -> ImageDelta:
    """Turn `image`, in place, into what `newer` (a snapshot of the leader) says; returns what that changed.

    All readers of the metadata follow it by deltas, this jump too.
    """
    before = image.copy()
    for name in MetadataImage.__slots__:
        setattr(image, name, getattr(newer, name))
    delta = ImageDelta(image)
    for topic_id, topic in before.topics.items():
        if topic_id not in image.topics:
            delta.topics_deleted[topic_id] = topic
    for topic_id, topic in image.topics.items():
        old = before.topics.get(topic_id)
        if old is None:
            delta.topics_created[topic_id] = topic
        known = {} if old is None else old.partitions
        touched = {
            index: known.get(index) for index, state in topic.partitions.items() if known.get(index) != state
        }
        if touched:
            delta.partitions[topic_id] = touched
    delta.brokers = _changed(before.brokers, image.brokers)
    delta.controllers = _changed(before.controllers, image.controllers)
    delta.configs = _changed(before.configs, image.configs)
    delta.features = _changed(before.features, image.features)
    delta.producer_ids = before.next_producer_id != image.next_producer_id
    delta.quotas = before.client_quotas != image.client_quotas
    delta.acls = _changed(before.acls, image.acls)
    delta.scram = before.scram != image.scram
    delta.tokens = before.tokens != image.tokens
    return delta


def _changed(before: dict[Any, Any], after: dict[Any, Any]) -> set[Any]:
    return {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
