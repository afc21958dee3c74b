"""What the demo does to itself while flights go through: a leader dies, and Spark's driver does.

Each is a list of steps in order.  A step returns whether it is done, and is asked again, for the demo goes on
meanwhile; nothing here waits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from barnabas.pipeline.demo.node import DemoNode
from barnabas.pipeline.demo.nodes import Leaders, Nodes
from barnabas.pipeline.demo.stream import Stream
from barnabas.pipeline.demo.timeline import Timeline

__all__ = ["DriverKill", "LeaderKill", "Scene"]

LEADER_DOWN_S = 5.0
DRIVER_DOWN_S = 2.0


class Scene(NamedTuple):
    """What a strike sees of the demo."""

    say: Callable[[str, str], None]
    delivered: Callable[[], int]
    """Rows acknowledged so far."""
    fed: Callable[[], bool]
    """Whether all of them are."""
    read: Callable[[], bool]
    """Whether Spark has read all of them."""
    timeline: Timeline


class LeaderKill:
    """kill -9 for the leader of partition 0 when `is_time`; it comes back on its directory."""

    def __init__(self, scene: Scene, nodes: Nodes, leaders: Leaders, is_time: Callable[[], bool]) -> None:
        self.steps = [self.kill, self.taken_over, self.bring_back, self.is_back, self.whole]
        self.at_row = 0
        self._scene, self._nodes, self._leaders, self._is_time = scene, nodes, leaders, is_time
        self._victim: DemoNode | None = None
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<LeaderKill {self._victim!r} at row {self.at_row}>"

    def kill(self) -> bool:
        """When it is time, and somebody leads."""
        victim = self._nodes.all.get(self._leaders.leader(0))
        if victim is None or not self._is_time():
            return False
        self.at_row = self._scene.delivered()
        led, pid = self._leaders.led[victim.number], victim.kill()
        self._victim, self._since = victim, time.monotonic()
        self._scene.timeline.begin(f"{victim.name} is dead", killed=True)
        self._scene.say(
            f"kill -9 {pid}: {victim.name}, leader of {led} of {self._leaders.led.total()} partitions of "
            f"flights, is gone at row {self.at_row:,}, in the middle of the traffic",
            "bold red",
        )
        return True

    def taken_over(self) -> bool:
        """Whether others lead what the dead node led."""
        assert self._victim is not None
        if not self._leaders.without(self._victim.number):
            return False
        self._scene.say(f"the other nodes lead all partitions after {self._took()}", "bold green")
        return True

    def bring_back(self) -> bool:
        """Start the node again, after a while."""
        assert self._victim is not None
        if time.monotonic() - self._since < LEADER_DOWN_S and not self._scene.fed():
            return False
        self._victim.start()
        self._since = time.monotonic()
        self._scene.say(f"{self._victim.name} starts again on the same directory", "yellow")
        return True

    def is_back(self) -> bool:
        """Whether the node answers again."""
        assert self._victim is not None
        if not self._victim.ready():
            return False
        self._scene.timeline.end(f"{self._victim.name} is dead")
        self._scene.say(f"{self._victim.name} is back, recovered, after {self._took()}", "bold green")
        return True

    def whole(self) -> bool:
        """Whether every replica is in sync again."""
        if not self._leaders.full:
            return False
        self._scene.say(f"all replicas are in sync again after {self._took()}", "bold green")
        return True

    def _took(self) -> str:
        return f"{time.monotonic() - self._since:.1f} s"


class DriverKill:
    """kill -9 for Spark: the driver, its Java and the Python workers; it starts again on its checkpoint."""

    def __init__(self, scene: Scene, stream: Stream, is_time: Callable[[], bool]) -> None:
        self.steps = [self.kill, self.start_again, self.is_back]
        self.at_row = 0
        self._scene, self._stream, self._is_time = scene, stream, is_time
        self._batch = 0
        self._since = 0.0

    def __repr__(self) -> str:
        return f"<DriverKill at row {self.at_row}>"

    def kill(self) -> bool:
        """When it is time, and micro-batches were done."""
        if self._stream.through == 0 or not self._is_time():
            return False
        self.at_row, self._since = self._stream.through, time.monotonic()
        pid = self._stream.kill()
        self._batch = self._stream.batch
        self._scene.timeline.begin("Spark is dead", killed=True)
        self._scene.say(
            f"kill -9 {pid}: Spark's driver, with its Java and its Python workers, is gone after row "
            f"{self.at_row:,} and micro-batch {self._batch}, in the middle of the next one",
            "bold red",
        )
        return True

    def start_again(self) -> bool:
        """After a while."""
        if time.monotonic() - self._since < DRIVER_DOWN_S:
            return False
        self._stream.start()
        self._scene.say("Spark starts again on the same checkpoint", "yellow")
        return True

    def is_back(self) -> bool:
        """Whether a micro-batch was done by the new one, or there is nothing left for one."""
        idle = self._scene.read() and bool(self._stream.ready)
        if self._stream.batch == self._batch and not idle:
            return False
        self._scene.timeline.end("Spark is dead")
        took = time.monotonic() - self._since
        self._scene.say(f"Spark is back at micro-batch {self._stream.batch} after {took:.1f} s", "bold green")
        return True
