"""Python's collector of cyclic garbage, kept from holding the loop: what has lived long is not looked at again.

A full collection looks at every object there is, and a thousand partitions are fifty thousand: 10 ms and more of
one turn.  Nearly all of them live for hours, and go by their reference counts, without the collector, when their
topic is deleted.  So full collections come often, while little is new, and whatever survives one is frozen once
it is much: the next one looks at what came since.  Connections do leave garbage; one that was open when its
objects were frozen leaves it for good, therefore everything is looked at again now and then.

For a process that is a node and nothing else; a node inside somebody's program leaves the collector alone.
"""

from __future__ import annotations

import gc

__all__ = ["Collector"]

THRESHOLDS = 700, 10, 2
"""Python's own but for the last: a full collection after 14,000 new objects, not 70,000."""
MUCH = 5_000
"""Objects that survived a full collection are frozen from this many on."""
FREEZES = 64
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
        if phase != "stop" or info["generation"] != 2 or len(gc.get_objects(2)) < MUCH:
            return
        self.freezes += 1
        if self.freezes % FREEZES:
            gc.freeze()
        else:
            gc.unfreeze()

    def __repr__(self) -> str:
        return f"<Collector freezes={self.freezes}>"
