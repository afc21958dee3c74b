"""All mutants of what guards against disks that lie: seeds of `sim.cluster.lying` find them."""

from __future__ import annotations

from barnabas.sim.cluster.mutants.healing import HEALING
from barnabas.sim.cluster.mutants.lacking import LACKING
from barnabas.sim.cluster.mutants.rot import ROT
from barnabas.sim.kernel.mutants import Mutant

__all__ = ["LYING"]

LYING: tuple[Mutant, ...] = (*ROT, *LACKING, *HEALING)
