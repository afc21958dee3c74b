"""A seed of a cluster whose disks lie, in turn, under the usual clients.

`run_lying_seed(17)` has the cluster and the clients of seed 17, whose history stays what it is: what lies is drawn
from randomness of its own.  Nothing acknowledged may be lost, no damage served that was met, and all that lied is
whole when the faults have ended for a while.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from barnabas.sim.cluster.faults import (
    Blackout,
    Isolation,
    Kill,
    KillController,
    KillLeader,
    Partition,
    Pause,
    PowerCut,
    Restart,
    SlowDisk,
)
from barnabas.sim.cluster.lying.faults import of
from barnabas.sim.cluster.lying.rot import Rot
from barnabas.sim.cluster.seed_run import ClusterReport, SeedRun, run_seed
from barnabas.sim.cluster.setup import Setup

__all__ = ["LyingRun", "run_lying_seed"]

_OTHERS = (
    Blackout,
    Isolation,
    Kill,
    KillController,
    KillLeader,
    Partition,
    Pause,
    PowerCut,
    Restart,
    SlowDisk,
)
"""Faults that take no copy away: the budget is spent on lies."""


def run_lying_seed(seed: int, *, story: bool = False) -> ClusterReport:
    """Run one seed with disks that lie."""
    return run_seed(seed, story=story, workload="lies", run=LyingRun)


def _setup(seed: int) -> Setup:
    drawn = Setup.of(random.Random(f"cluster setup {seed}"))
    rng = random.Random(f"lying setup {seed}")
    settings = {
        "barnabas.scrub.interval.ms": 3_000,
        "log.cleaner.enable": "false",  # with short segments it would compact what is compared
        "log.roll.ms": rng.choice((1_500, 4_000, 600_000)),
        "log.flush.offset.checkpoint.interval.ms": rng.choice((1_000, 60_000)),
    }
    return replace(drawn, settings=(*drawn.settings, *((k, str(v)) for k, v in settings.items())))


class LyingRun(SeedRun):
    """See the module."""

    def __init__(self, seed: int, **options: Any) -> None:
        options["setup"] = options.get("setup") or _setup(seed)
        super().__init__(seed, **options)
        rng = random.Random(f"lies {seed}")
        self.rot = Rot(self.world, self.invariants)
        self.world.excuses = self.rot.excuses
        lies = of(self.rot)
        self.enabled = [kind for kind in _OTHERS if rng.random() < 0.4]
        self.enabled += rng.sample(lies, rng.randint(2, len(lies)))
        self.world.every(0.5, self.rot.look)

    def wanting(self) -> str | None:
        """What is still missing, damage included; None when nothing is."""
        there = (node for node in self.world.nodes.values() if node is not self.away)
        rotten = (self.rot.wanting(node) for node in there if node.rotten)
        return super().wanting() or next(filter(None, rotten), None)
