"""What all tests need of the process they run in."""

from __future__ import annotations

import signal

import pytest

from barnabas.server.observe import events
from barnabas.server.observe.event_limits import EventLimit

# A shell that starts the suite in the background has it ignore Ctrl-C, and every child inherits that; tests that
# interrupt a node or the demo mean the ordinary case.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def unlimited_events() -> None:
    """Lines that another test's clients caused do not count against this one's."""
    for event in events.CATALOGUE.values():
        event.limit = EventLimit()
