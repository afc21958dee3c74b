"""Tables on narrow terminals."""

from __future__ import annotations

import pytest

from barnabas.cli import output

ROWS = [[1, "127.0.0.1:9092", "unfenced", 12], [2, "127.0.0.1:9093", None, 3]]
COLUMNS = ["id", "address", "state", "replicas"]


def shown(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    output.print_rows(COLUMNS, ROWS)
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_a_table_that_does_not_fit_a_narrow_terminal_is_printed_row_by_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert shown(30, monkeypatch, capsys) == [
        "ID        1",
        "ADDRESS   127.0.0.1:9092",
        "STATE     unfenced",
        "REPLICAS  12",
        "",
        "ID        2",
        "ADDRESS   127.0.0.1:9093",
        "STATE     -",
        "REPLICAS  3",
    ]


@pytest.mark.parametrize("columns", [48, 200])
def test_a_table_that_fits_stays_one(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(columns, monkeypatch, capsys)
    assert len(lines) == 3 and lines[1].split() == ["1", "127.0.0.1:9092", "unfenced", "12"]
