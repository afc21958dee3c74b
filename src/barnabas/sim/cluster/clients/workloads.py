"""Which clients a cluster's seed runs: the usual ones, or others that are asked for by name.

`barnabas simulate --cluster --NAME` runs the seeds of the workload NAME.  Each has its own ledger, because a seed
means something else in each.  Another workload is another row of WORKLOADS.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple, cast

if TYPE_CHECKING:
    from barnabas.sim.cluster.seed_run import ClusterReport

__all__ = ["LIES", "USUAL", "WORKLOADS", "Workload", "flags_of", "seed_runner"]

USUAL = ""
"""The name of the workload that no flag asks for."""
LIES = "lies"
"""The usual clients, on disks that lie."""


class Workload(NamedTuple):
    """`function` in `module` runs one of its seeds; it is imported when it is wanted.  `says` is for the help."""

    says: str
    module: str
    function: str


WORKLOADS: dict[str, Workload] = {
    USUAL: Workload("producers and consumers", "seed_run", "run_seed"),
    "transactions": Workload(
        "clients with transactions", "clients.transactions.workload", "run_transactional_seed"
    ),
    LIES: Workload("disks that lie", "lying.lying_run", "run_lying_seed"),
    "groups": Workload("members of consumer groups", "clients.groups.workload", "run_group_seed"),
}


def flags_of(name: str) -> str:
    """The flags of `barnabas simulate` that ask for a workload."""
    return f"--cluster --{name}" if name else "--cluster"


def seed_runner(name: str) -> Callable[..., ClusterReport]:
    """What runs a seed of that workload: `run(seed, story=False)`."""
    workload = WORKLOADS[name]
    module = import_module(f"barnabas.sim.cluster.{workload.module}")
    return cast("Callable[..., ClusterReport]", getattr(module, workload.function))
