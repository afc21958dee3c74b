"""kill -9 of one node after the other, and its start again, while something runs against the cluster."""

from __future__ import annotations

import itertools
import threading
from types import TracebackType

from tests.suites.apache import ApacheCluster

from barnabas.testing import Cluster

DOWN_SECONDS = 3.0  # how long a killed node stays away


class Kills:
    """`with Kills(cluster, 20) as kills`: every 20 seconds; 0: never.  `kills.count` says how many there were."""

    def __init__(self, cluster: Cluster | ApacheCluster, every: float) -> None:
        self.count = 0
        self._cluster = cluster
        self._every = every
        self._ended = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._go_round, name="kills")

    def __enter__(self) -> Kills:
        if self._every:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is None and self._error is not None:
            raise self._error

    def stop(self) -> None:
        """No more of them; returns when every node runs."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _go_round(self) -> None:
        try:
            for node in itertools.cycle(self._cluster.nodes):
                if self._ended.wait(self._every - DOWN_SECONDS):
                    return
                self._cluster.kill(node.number)
                self.count += 1
                self._ended.wait(DOWN_SECONDS)
                self._cluster.start(node.number)
        except BaseException as error:
            self._error = error
