"""Places in a partition as people write them."""

from __future__ import annotations

import pytest

from barnabas.cli.typed.places import Place, place
from barnabas.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("earliest", Place(end="earliest")),
        ("42", Place(offset=42)),
        ("-5", Place(last=5)),
        ("time:1700000000000", Place(time_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20Z", Place(time_ms=1_700_000_000_000)),
        ("2023-11-14T22:13:20.250", Place(time_ms=1_700_000_000_250)),
        ("time:2023-11-15T00:13:20+02:00", Place(time_ms=1_700_000_000_000)),
        ("2023-11-15", Place(time_ms=1_700_006_400_000)),
        ("1969-12-31T23:59:59.999Z", Place(time_ms=0)),
        ("0001-01-01T00:00:00+14:00", Place(time_ms=0)),
    ],
)
def test_a_place_is_an_offset_an_end_the_last_records_or_a_time(text: str, found: Place) -> None:
    assert place(text, "--offset") == found


@pytest.mark.parametrize("text", ["", "-", "--5", "five", "time:", "2023-13-01", "1e3", "\u00b2", "-\u00b2"])
def test_what_names_no_place_is_refused_with_the_ways_to_write_one(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--to .*names no place") as caught:
        place(text, "--to")
    assert "-N (the last N records)" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    "number", ["9" * 19, "9" * 5000], ids=["one beyond what fits", "one that int() refuses"]
)
@pytest.mark.parametrize("before", ["", "-", "time:"])
def test_a_number_that_no_offset_or_time_can_be_names_no_place(before: str, number: str) -> None:
    with pytest.raises(ConfigError, match="names no place"):
        place(before + number, "--to")
