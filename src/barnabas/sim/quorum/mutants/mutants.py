"""All mutants of the quorum's simulator."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant
from barnabas.sim.quorum.mutants.autopilot import AUTOPILOT_MUTANTS
from barnabas.sim.quorum.mutants.first import FIRST
from barnabas.sim.quorum.mutants.kafka import KAFKA
from barnabas.sim.quorum.mutants.subtle import SUBTLE

__all__ = ["MUTANTS"]

MUTANTS: tuple[Mutant, ...] = (*FIRST, *SUBTLE, *AUTOPILOT_MUTANTS, *KAFKA)
