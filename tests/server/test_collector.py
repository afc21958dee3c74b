"""The collector of cyclic garbage looks at what is new, not at everything a node holds."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from barnabas.server.loop import collector
from barnabas.server.loop.collector import MANY_OBJECTS, Collector


@pytest.fixture
def installed() -> Iterator[Collector]:
    gc.collect()
    one = Collector()
    one.install()
    try:
        yield one
    finally:
        one.remove()


class Thing:
    """Something that can hold itself."""

    def __init__(self) -> None:
        self.me: Thing | None = None


def things(count: int) -> list[Thing]:
    return [Thing() for _ in range(count)]


def test_what_survived_a_full_collection_is_not_looked_at_again(installed: Collector) -> None:
    kept = things(2 * MANY_OBJECTS)
    gc.collect()
    assert installed.freezes == 1
    assert len(gc.get_objects(2)) < MANY_OBJECTS
    assert gc.get_freeze_count() > len(kept)


def test_little_is_not_frozen_and_becomes_garbage_as_usual(installed: Collector) -> None:
    one = Thing()
    one.me = one
    gone = weakref.ref(one)
    gc.collect()
    assert installed.freezes == 0
    del one
    gc.collect()
    assert gone() is None


def test_what_was_frozen_and_goes_in_a_circle_is_found_in_the_end(
    installed: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "FREEZES_UNTIL_THAW", 2)
    one = Thing()
    one.me = one
    gone = weakref.ref(one)
    kept = [things(2 * MANY_OBJECTS)]
    gc.collect()
    del one
    gc.collect()
    assert gone() is not None, "it is frozen"
    kept.append(things(2 * MANY_OBJECTS))
    gc.collect()  # everything is thawed after this one
    gc.collect()
    assert gone() is None


def test_what_was_frozen_goes_without_the_collector_when_nobody_holds_it(installed: Collector) -> None:
    kept = things(2 * MANY_OBJECTS)
    gc.collect()
    frozen = gc.get_freeze_count()
    kept.clear()
    assert gc.get_freeze_count() <= frozen - 2 * MANY_OBJECTS


def test_a_full_collection_comes_before_much_is_new(installed: Collector) -> None:
    kept = []
    while not installed.freezes:
        kept.append(Thing())
        assert len(kept) < 10 * MANY_OBJECTS
