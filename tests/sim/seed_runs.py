"""Seeds run in this process, and the same ones in another process whose hashes come out otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from barnabas.sim.quorum.seed_run import QuorumReport, run_seed
from barnabas.sim.quorum.story import tell

__all__ = ["Elsewhere", "kept", "report_of"]

_CODE = """
import sys
from barnabas.sim.quorum.seed_run import run_seed
for seed in map(int, sys.argv[1:]):
    print(run_seed(seed, story=seed % 10 == 0).digest)
"""


@cache
def report_of(seed: int) -> QuorumReport:
    """What became of a seed here."""
    return run_seed(seed)


def kept(seeds: Iterable[int]) -> str:
    """The story of the first of these seeds that violated an invariant; "" when none did."""
    broken = [seed for seed in seeds if not report_of(seed).ok]
    return "\n".join(tell(run_seed(broken[0], story=True))) if broken else ""


class Elsewhere:
    """These seeds, run by another process at the same time."""

    def __init__(self, seeds: Iterable[int]) -> None:
        hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
        source = str(Path(__file__).parents[2] / "src")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, *map(str, seeds)],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": source},
            stdout=subprocess.PIPE,
            text=True,
        )

    def __repr__(self) -> str:
        return f"<Elsewhere pid={self._process.pid}>"

    def digests(self) -> list[str]:
        """Their fingerprints, in order."""
        out, _ = self._process.communicate()
        assert self._process.returncode == 0
        return out.split()
