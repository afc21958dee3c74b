"""Thousands of seeds in one process: nothing of a seed is there when the next one begins."""

from __future__ import annotations

import gc
import weakref

from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.sim.cluster import seed_run
from barnabas.sim.cluster.world import World


class Segment:
    """A sealed segment of a world, whose file is open."""

    def __init__(self, world: World) -> None:
        self.world = world

    def drop_file(self) -> None:
        raise AssertionError("the world is over")


def test_a_world_is_gone_when_its_seed_is_over() -> None:
    worlds: list[weakref.ref[World]] = []

    class Short(seed_run.SeedRun):
        def run(self) -> None:
            worlds.append(weakref.ref(self.world))
            self.world.start()
            self.world.run(3.0)
            OPEN_FILES.used(Segment(self.world))

    gc.collect()
    assert seed_run.run_seed(3, run=Short).ok
    assert worlds[0]() is None
