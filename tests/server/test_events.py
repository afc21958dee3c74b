"""Events: names, fields, both forms."""

from __future__ import annotations

import json
import logging
import re

import pytest

from barnabas.server.observe import events
from barnabas.server.observe.event_limits import EVENT_BURST, MAX_REASONS, REASON_BURST, EventLimit


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the logger back as it was."""
    root = logging.getLogger("barnabas")
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "propagate", root.propagate)
    monkeypatch.setattr(root, "level", root.level)


def test_every_event_has_a_room_a_name_and_a_sentence() -> None:
    for name, event in events.CATALOGUE.items():
        assert re.fullmatch(r"[a-z]+\.[a-z-]+", name), name
        assert event.sentence and not event.sentence.endswith("."), name


@pytest.mark.usefixtures("configured")
def test_an_event_is_one_line_of_key_and_value(capsys: pytest.CaptureFixture[str]) -> None:
    events.configure("text")
    events.emit(events.LISTENING, listener="A://b:1", note='two "words"\n')
    line = capsys.readouterr().err
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    listener\.listening: ", line)
    assert 'listener=A://b:1 note="two \\"words\\"\\n"\n' in line
    assert line.count("\n") == 1


@pytest.mark.usefixtures("configured")
def test_an_event_is_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    events.configure("json")
    events.emit(events.REQUEST_FAILED, api="Fetch", error=ZeroDivisionError("a mistake"))
    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "request.failed"
    assert (line["level"], line["api"], line["error"]) == ("error", "Fetch", "a mistake")
    assert "ZeroDivisionError" in line["traceback"]


@pytest.mark.usefixtures("configured")
def test_a_level_hides_what_is_below(capsys: pytest.CaptureFixture[str]) -> None:
    events.configure("text", "warning")
    events.emit(events.LISTENING)
    assert capsys.readouterr().err == ""


def lines(limit: EventLimit, reasons: list[str], seconds: range) -> list[str]:
    """The reasons of the lines that are written when each second brings one of each."""
    return [reason for second in seconds for reason in reasons if limit.admits(reason, float(second))]


def test_a_flood_of_one_reason_writes_a_burst_and_then_a_line_a_minute() -> None:
    limit = EventLimit()
    assert sum(limit.admits("Fetch v4", 0.0) for _ in range(140_000)) == REASON_BURST
    assert limit.left_out == 140_000 - REASON_BURST
    assert len(lines(limit, ["Fetch v4"], range(1, 601))) == 10


def test_a_flood_of_one_reason_hides_no_other() -> None:
    limit = EventLimit()
    lines(limit, ["Fetch v4"], range(100))
    assert lines(limit, ["Fetch v4", "JoinGroup v9"], range(100, 102)) == ["JoinGroup v9", "JoinGroup v9"]


def test_made_up_reasons_take_neither_lines_nor_memory_without_end() -> None:
    limit = EventLimit()
    assert len(lines(limit, [f"reason {n}" for n in range(5000)], range(1))) == EVENT_BURST
    assert len(limit._reasons) <= MAX_REASONS + 1


@pytest.mark.usefixtures("configured")
def test_the_next_line_says_how_many_were_left_out(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = [0.0]
    monkeypatch.setattr(events.time, "monotonic", lambda: seconds[0])
    events.configure("text")
    for _ in range(10):
        events.emit(events.FRAME_NEGATIVE, reason="", length=-1)
    seconds[0] = 61.0
    events.emit(events.FRAME_NEGATIVE, reason="", length=-1)
    written = capsys.readouterr().err.splitlines()
    assert len(written) == REASON_BURST + 1
    assert written[-1].endswith(f"left_out={10 - REASON_BURST}")


@pytest.mark.usefixtures("configured")
def test_a_long_value_is_cut_and_its_control_characters_are_escaped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    events.configure("text")
    events.emit(events.REQUEST_VERSION, reason="0", client_id="\x1b[2J" + "x" * 32_000)
    line = capsys.readouterr().err
    assert len(line) < 2 * events.LONGEST_VALUE and "\x1b" not in line
    assert "(32004 characters)" in line
