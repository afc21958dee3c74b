"""The fuzzer itself: a seed draws the same frames again, of every kind, for every API."""

from __future__ import annotations

import random
from itertools import islice

import pytest
from tests.fuzz.messages import World
from tests.fuzz.mutations import MUTATIONS
from tests.fuzz.run import frames

from barnabas.model import Uuid
from barnabas.server.api.table import TABLE
from barnabas.wire.frame import FrameReader, read_request_header

WORLD = World("cluster", [Uuid(bytes([1]) * 16)])


def test_a_seed_draws_the_same_frames_again() -> None:
    first, second = (list(islice(frames(7, WORLD), 300)) for _ in range(2))
    assert first == second
    assert first != list(islice(frames(8, WORLD), 300))


def test_every_api_of_the_table_and_every_mutation_is_drawn() -> None:
    drawn = list(islice(frames(1, WORLD), 6000))
    assert {one.mutation for one in drawn} == set(MUTATIONS)
    assert len(MUTATIONS) >= 16
    keys = {int(one.api.split()[0]) for one in drawn}
    assert keys == {row.key for row in TABLE}


def test_what_is_not_mutated_is_a_frame_that_the_node_can_read() -> None:
    for one in islice(frames(1, WORLD, ("as_it_is",)), 500):
        reader = FrameReader(1 << 20)
        reader.feed(one.data)
        frame = reader.take()
        assert frame is not None
        header, _ = read_request_header(frame)
        assert f"{header.api_key} v{header.version}" == one.api


@pytest.mark.parametrize("name", sorted(set(MUTATIONS) - {"as_it_is"}))
def test_a_mutation_changes_what_is_sent(name: str) -> None:
    (frame,) = islice(frames(3, WORLD, ("as_it_is",)), 1)
    (other,) = islice(frames(4, WORLD, ("as_it_is",)), 1)
    changed = [MUTATIONS[name](frame.data, random.Random(seed), other.data) for seed in range(20)]
    assert any(data != frame.data for data in changed)
