"""Events: names, fields, both forms."""

from __future__ import annotations

import json
import logging
import re

import pytest

from barnabas.server import events


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
