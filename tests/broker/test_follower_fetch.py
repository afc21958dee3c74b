"""A follower's fetch that is read from its bytes is answered like one that is decoded, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.fetch_lives import Life, live
from tests.broker.harness import PAGE_CACHE
from tests.broker.plain_nodes import PlainFollower

from barnabas.broker.requests.follower_fetch import FollowerFetches


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
@pytest.mark.parametrize("version", [15, 18])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_answered_like_a_decoded_one(seed: int, version: int, mode: str) -> None:
    lives = [Life(mode, version=version), Life(mode, version=version, kind=PlainFollower)]
    live(seed, lives)
    node = lives[1].node
    assert isinstance(node, PlainFollower)
    assert node.recognized >= 5


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
def test_while_all_is_well_no_objects_are_made_for_it(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = dict.fromkeys(("_tell", "read_again"), 0)
    for name in counts:
        _count(monkeypatch, name, counts)
    for seed in range(10):
        live(seed, [Life(mode, version=17), Life(mode, version=17, kind=PlainFollower)], upset=0.03)
    assert counts["_tell"] >= 50, counts
    assert counts["read_again"] >= 3, counts


def _count(monkeypatch: pytest.MonkeyPatch, name: str, counts: dict[str, int]) -> None:
    original = getattr(FollowerFetches, name)

    def counted(*arguments: Any) -> Any:
        found = original(*arguments)
        counts[name] += found != (None, False)
        return found

    monkeypatch.setattr(FollowerFetches, name, counted)
