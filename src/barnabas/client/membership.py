"""A member of a consumer group over blocking connections, whose heartbeats a thread sends."""

from __future__ import annotations

import threading

from barnabas.client.both.awaited import ThreadLock, at_once
from barnabas.client.both.membership import AnyMembership
from barnabas.client.cluster import Cluster
from barnabas.client.group_options import GroupMachine
from barnabas.client.waits.poll_interval import PollInterval

__all__ = ["Membership"]


class Membership(AnyMembership):
    """`at_once(Membership(cluster, ClassicMember(...)).rebalance(reader))`; see `AnyMembership`."""

    def __init__(
        self,
        cluster: Cluster,
        member: GroupMachine,
        *,
        stable: bool = False,
        interval: PollInterval | None = None,
    ) -> None:
        super().__init__(cluster.awaited, member, ThreadLock(), stable=stable, interval=interval)
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def _start_heartbeats(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._send_heartbeats, name="barnabas-heartbeat", daemon=True
            )
            self._thread.start()

    def _send_heartbeats(self) -> None:
        while not self._ended.wait(self.member.heartbeat_interval):
            at_once(self._live_on())

    async def leave(self) -> None:
        self._ended.set()
        async with self._talking:
            await super().leave()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(self.member.heartbeat_interval + 1.0)
