"""What is counted at the end of an application, and how its row in docs/compatibility.md tells it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from tests.suites import page
from tests.suites.apps import numbers
from tests.suites.apps.copier import out_of_order
from tests.suites.apps.declared import APPS, app
from tests.suites.apps.run import AppResult, result
from tests.suites.apps.stage import Outcome
from tests.suites.apps.verifiable import events


def test_each_number_is_counted_once() -> None:
    assert numbers.tally([b"0", b"2", b"1"], 3).whole
    found = numbers.tally([b"0", b"2", b"2", b"2", b"9", b"x"], 4)
    assert (found.lost, found.twice, found.strange) == (2, 1, 2)


def test_a_number_after_a_higher_one_of_its_partition_is_out_of_order() -> None:
    assert out_of_order([(0, b"", b"1"), (1, b"", b"0"), (0, b"", b"2")]) == 0
    assert out_of_order([(0, b"", b"2"), (0, b"", b"1"), (0, b"", b"1")]) == 2


def test_a_file_has_each_number_that_was_written(tmp_path: Path) -> None:
    path = tmp_path / "numbers"
    with numbers.to_file(path, rate=20_000) as writing:
        while not writing.written:
            time.sleep(0.001)
        written = writing.stop()
    assert numbers.tally(path.read_bytes().splitlines(), written).whole


def test_what_the_writer_fails_with_is_raised() -> None:
    def full() -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        numbers.Numbers(1000, lambda some: None, finish=full).stop()


def test_the_last_line_of_a_tool_may_not_be_whole_yet(tmp_path: Path) -> None:
    (tmp_path / "out").write_text('{"name": "a"}\nlog line\n{"name": "b"')
    assert list(events(tmp_path / "out")) == [{"name": "a"}]


def counted(found: numbers.Tally) -> AppResult:
    outcome = Outcome({"copied": found}, ["two lives"])
    return result(app("copier"), outcome, "Barnabas", 3, 10.0, 15.0, 38, time.monotonic())


def test_a_row_says_what_went_in_and_what_came_out() -> None:
    good = counted(numbers.Tally(180_000, 0, 0))
    assert good.good
    assert "| 3 nodes | 10 | 38 | 180,000 | 0 | 0 | two lives |" in page.section_of_apps([good])


def test_a_lost_number_stands_out() -> None:
    bad = counted(numbers.Tally(180_000, 2, 1))
    assert not bad.good
    assert "- copier: **copied: 180000 in, 2 lost, 1 twice, 0 strange**" in page.section_of_apps([bad])


def test_every_application_has_a_name_of_its_own() -> None:
    assert len({each.name for each in APPS}) == len(APPS)
