"""More of tests/sim/test_simulated_seeds.py: two files, for two processes of the test suite.

`.ci/run` goes on where this file ends (`make sim`).
"""

from __future__ import annotations

import pytest
from tests.sim.seed_runs import Elsewhere, kept, report_of

CHUNK = 10
FIRST = range(61, 101, CHUNK)


@pytest.mark.parametrize("first", FIRST)
def test_every_promise_is_kept_and_another_process_with_another_hash_seed_goes_the_same_way(
    first: int,
) -> None:
    seeds = range(first, first + CHUNK)
    elsewhere = Elsewhere(seeds[::5])
    here = [report_of(seed).digest for seed in seeds]
    assert elsewhere.digests() == here[::5]
    assert not kept(seeds), kept(seeds)
