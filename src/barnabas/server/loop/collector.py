"""Keeps Python's garbage collector from stopping the loop: it does not examine long-lived objects again.

A full collection examines every object, and a thousand partitions are fifty thousand objects: 10 ms or more
in one loop step.  Nearly all of them live for hours, and reference counts free them, without the collector,
when their topic is deleted.  So this module runs full collections often, while few objects are new, and
freezes the survivors once there are many: the next collection examines only newer objects.  Connections do
leave garbage, and a connection that was open when its objects were frozen would leave it for good.  So from
time to time everything is examined again.

This is for a process that only runs a node; a node inside another program leaves the collector alone.
"""

from __future__ import annotations

import gc

__all__ = ["Collector"]

THRESHOLDS = 700, 10, 2
"""Python's own but for the last: a full collection after 14,000 new objects, not 70,000."""
MANY_OBJECTS = 5_000
"""Objects that survived a full collection are frozen from this many on."""
FREEZES_UNTIL_THAW = 64
"""After so many everything is thawed, and the next full collection looks at all of it."""


class Collector:
    """`collector.install()` before the node starts, `collector.settle()` when it has."""

    __slots__ = ("_before", "freezes")

    def __init__(self) -> None:
        self.freezes = 0
        self._before = gc.get_threshold()

    def install(self) -> None:
        """From here on what survives is frozen."""
        self.settle()
        gc.set_threshold(*THRESHOLDS)
        gc.callbacks.append(self._collected)

    def settle(self) -> None:
        """What is there now lives as long as the process."""
        gc.freeze()
        gc.collect()  # Python waits for a quarter of what the last full collection saw; this one sees nothing

    def remove(self) -> None:
        """Leave everything as it was before `install`."""
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        if phase != "stop" or info["generation"] != 2 or len(gc.get_objects(2)) < MANY_OBJECTS:
            return
        self.freezes += 1
        if self.freezes % FREEZES_UNTIL_THAW:
            gc.freeze()
        else:
            gc.unfreeze()

    def __repr__(self) -> str:
        return f"<Collector freezes={self.freezes}>"
