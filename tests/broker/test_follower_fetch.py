"""A follower's fetch that is read from its bytes is answered like one that is decoded, whatever happens."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.fetch_lives import Life, live
from tests.broker.harness import PAGE_CACHE, Answer, Node
from tests.broker.plain_answers import plainly_answered
from tests.frames import frame

from barnabas.broker.requests.follower_fetch import FollowerFetches
from barnabas.errors import WireError
from barnabas.wire.replica_fetch import FetchShape
from barnabas.wire.schemas.fetch import FetchRequest


class PlainNode(Node):
    """Takes each fetch of its follower that looks like the last one from its bytes."""

    shape: FetchShape | None = None
    fetches: FollowerFetches
    recognized = 0

    def ask(self, request: Any, version: int, client_id: str | None = "test") -> Answer:
        if not isinstance(request, FetchRequest) or request.replica_state.replica_id < 0:
            return super().ask(request, version, client_id)
        body = memoryview(frame(request, version))[4:]
        plain = self.shape.read(body, 0, len(body)) if self.shape is not None else None
        if plain is not None:
            found = self.fetches.fetch(plain.session_epoch, plain.rows, self.now)
            if found is not None:
                self.recognized += 1
                return plainly_answered(found, version)
        answer = super().ask(request, version, client_id)
        try:
            shape = FetchShape(body)
            self.fetches = FollowerFetches(self.broker, self.context("test"), request, version)
            self.shape = shape
        except (WireError, KeyError):
            self.shape = None
        return answer


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
@pytest.mark.parametrize("version", [15, 18])
@pytest.mark.parametrize("seed", range(8))
def test_it_is_answered_like_a_decoded_one(seed: int, version: int, mode: str) -> None:
    lives = [Life(mode, version=version), Life(mode, version=version, kind=PlainNode)]
    live(seed, lives)
    node = lives[1].node
    assert isinstance(node, PlainNode)
    assert node.recognized >= 5


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
def test_while_all_is_well_no_objects_are_made_for_it(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = dict.fromkeys(("_tell", "read_again"), 0)
    for name in counts:
        _count(monkeypatch, name, counts)
    for seed in range(10):
        live(seed, [Life(mode, version=17), Life(mode, version=17, kind=PlainNode)], upset=0.03)
    assert counts["_tell"] >= 50, counts
    assert counts["read_again"] >= 3, counts


def _count(monkeypatch: pytest.MonkeyPatch, name: str, counts: dict[str, int]) -> None:
    original = getattr(FollowerFetches, name)

    def counted(*arguments: Any) -> Any:
        found = original(*arguments)
        counts[name] += found != (None, False)
        return found

    monkeypatch.setattr(FollowerFetches, name, counted)
