"""What all tests need of the process they run in."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from barnabas.server.observe import events
from barnabas.server.observe.event_limits import EventLimit

SPARE_DESCRIPTORS = 12
"""A file of tests may leave so many open: those of fixtures that outlive it, of caches, of loggers."""
spark_files: set[Path] = set()
"""Files whose tests leave a JVM and connections to it behind, for the files that follow."""

# A shell that starts the suite in the background has it ignore Ctrl-C, and every child inherits that; tests that
# interrupt a node or the demo mean the ordinary case.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How fast this machine is now says nothing about the code.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture(autouse=True)
def unlimited_events() -> None:
    """Lines that another test's clients caused do not count against this one's."""
    for event in events.CATALOGUE.values():
        event.limit = EventLimit()


@pytest.fixture(autouse=True)
def the_garbage_collector_is_pythons_own() -> Iterator[None]:
    """Whoever runs a whole node in this process leaves it as it was."""
    yield
    assert [one for one in gc.callbacks if "Collector" in f"{one}"] == []


def descriptors() -> list[str]:
    """What this process has open."""
    names = []
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    return names


@pytest.fixture(autouse=True, scope="module")
def descriptors_are_given_back(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests of other files run in this process later, and some count descriptors."""
    before = descriptors()
    yield
    if request.path in spark_files or request.path.parent.name == "pipeline":
        return  # (a sink's workers keep their producers as long as their process lives: this one)
    if len(descriptors()) <= len(before) + SPARE_DESCRIPTORS:
        return
    gc.collect()
    left = descriptors()
    assert len(left) <= len(before) + SPARE_DESCRIPTORS, sorted(set(left) - set(before))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that no worker is left with one at the end (`--no-loadscope-reorder`)."""
    spark_files.update(item.path for item in items if item.get_closest_marker("spark"))
    items.sort(key=lambda item: not (item.get_closest_marker("spark") or item.get_closest_marker("long")))
