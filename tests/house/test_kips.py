"""docs/kips.md says where every clause stands: its rows are complete, and the files they name exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATES = {"built", "core", "part", "superseded", "missing"}
CLAUSES = {"642": 35, "001": 32, "853": 15, "856": 37, "004": 27}
ROW = re.compile(r"^\| (\d{3}-\d+) \| (.+) \| (\w+) \| `([^`]+)` \| (.*) \|$", re.MULTILINE)


def rows() -> list[tuple[str, str, str, str, str]]:
    return ROW.findall((ROOT / "docs" / "kips.md").read_text())


def test_every_clause_of_every_document_has_its_row() -> None:
    expected = [
        f"{document}-{number}" for document, count in CLAUSES.items() for number in range(1, count + 1)
    ]
    assert [row[0] for row in rows()] == expected


def test_a_row_has_a_state_and_names_files_that_exist() -> None:
    for id, _, state, where, remark in rows():
        assert state in STATES, id
        assert (ROOT / "src" / "barnabas" / where).exists(), f"{id}: {where}"
        for name in re.findall(r"tests/[\w./]+[\w]", remark):
            assert (ROOT / name).exists(), f"{id}: {name}"


def test_what_is_called_built_names_the_test_that_shows_it() -> None:
    bare = [row[0] for row in rows() if row[2] in ("built", "core") and "tests/" not in row[4]]
    assert not bare


def test_what_is_missing_is_not_hidden() -> None:
    counts = Counter(row[2] for row in rows())
    assert sum(counts.values()) == sum(CLAUSES.values())
