"""The history of the quorum: a line for each change, who asked, what it waited for; bounded, kept as records."""

from __future__ import annotations

import json

from barnabas.controller.image import RESOURCE_BROKER, MetadataImage
from barnabas.errors import ErrorCode
from barnabas.model import Now
from barnabas.raft.membership.noted import ChangeNoted
from barnabas.server.observe.history import MOST, PREFIX, History, lines_of
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import ConfigRecord


class Clock:
    def now(self) -> Now:
        return Now(5.0, 1_700_000_005_000)


class Kept:
    """An image to which what is appended comes at once, or later (`late`)."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {"log.retention.ms": "1"}
        self.end = 0
        self.late: list[ConfigRecord] = []
        self.image = MetadataImage()
        self.image.configs[(RESOURCE_BROKER, "")] = self.settings
        self.history = History(Clock(), lambda: self.image, lambda: self.end)

    def append(self, records: list[MetadataRecord]) -> None:
        for record in records:
            assert isinstance(record, ConfigRecord) and record.name.startswith(PREFIX)
            self.late.append(record)
        self.end += len(records)

    def hear(self, change: ChangeNoted) -> None:
        for entry in self.history.lines(change):
            assert isinstance(entry.payload, tuple) and entry.count == len(entry.payload)
            self.append(list(entry.payload))

    def apply(self) -> None:
        for record in self.late:
            if record.value is None:
                del self.settings[record.name]
            else:
                self.settings[record.name] = record.value
        self.late.clear()


class Asker:
    by = "User:alice at 10.0.0.7"


def test_a_change_that_waited_says_who_asked_for_how_long_and_for_what() -> None:
    kept = Kept()
    kept.hear(ChangeNoted(Asker(), "add 4-x", ErrorCode.NONE, 2.5, "4-x lags 9 records behind"))
    kept.hear(ChangeNoted(None, "remove 1-x", ErrorCode.NONE, 0.1, ""))
    kept.hear(ChangeNoted(Asker(), "add 5-x", ErrorCode.REQUEST_TIMED_OUT, 9.0, "it does not answer"))
    kept.apply()
    add, remove, given_up = map(json.loads, lines_of(kept.settings))
    assert add == {
        "at": 1_700_000_005_000,
        "by": "User:alice at 10.0.0.7",
        "what": "add 4-x",
        "outcome": "done",
        "seconds": 2.5,
        "waited_for": "4-x lags 9 records behind",
    }
    assert remove["by"] == "on the way to the target" and "waited_for" not in remove
    assert given_up["outcome"] == "given up"


def test_of_ten_thousand_changes_the_newest_stay_in_order() -> None:
    kept = Kept()
    for number in range(10_000):
        kept.append(kept.history.note("this node", f"change {number}", "done"))
        if number % 7 == 0:  # what is appended comes into the image a little later
            kept.apply()
    kept.apply()
    found = [json.loads(line)["what"] for line in lines_of(kept.settings)]
    assert found[-1] == "change 9999" and len(found) <= MOST + 7
    assert found == sorted(found, key=lambda what: int(what.split()[1]))


def test_the_next_leader_goes_on_counting_and_other_settings_are_let_alone() -> None:
    kept = Kept()
    kept.append(kept.history.note("this node", "one", "done"))
    kept.apply()
    other = Kept()
    other.end = kept.end
    other.image.configs[(RESOURCE_BROKER, "")] = other.settings = kept.settings
    other.append(other.history.note("this node", "two", "done"))
    other.apply()
    assert [json.loads(line)["what"] for line in lines_of(other.settings)] == ["one", "two"]
    assert other.settings["log.retention.ms"] == "1"


def test_the_next_leader_does_not_write_over_a_line_that_it_has_not_applied_yet() -> None:
    """The line of the leader before it is committed in the very step in which this one appends its first."""
    kept = Kept()
    kept.append(kept.history.note("this node", "one", "done"))
    other = Kept()
    other.end = kept.end
    other.append(other.history.note("this node", "two", "done"))
    assert len({record.name for record in (*kept.late, *other.late)}) == 2
