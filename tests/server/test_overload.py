"""A good client beside some attacks of `bench.overload`, a second each: it is served, and the node stays small.

The whole table, with the limits that count, is `make overload`; the bounds here are wide, because tests share
their machine.
"""

from __future__ import annotations

import pytest
from bench.overload import run

pytestmark = pytest.mark.long


def test_a_good_client_is_served_beside_those_who_attack() -> None:
    quiet, *attacked = run(1.0, ("uploads", "never read", "zstd bombs", "300 records"))
    assert len(attacked) == 5
    for result in attacked:
        assert result.answers > quiet.answers / 10, result
        assert result.p99_ms < max(300.0, 20 * quiet.p99_ms), result
        assert result.memory_mib - quiet.memory_mib < 80, result
