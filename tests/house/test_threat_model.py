"""Every test that the threat model names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = NAMED.findall(PAGE.read_text())
    assert len(named) > 30
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not re.search(rf"^\s*(async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)
    ]
    assert missing == []


def test_every_row_of_the_threat_model_has_its_test() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    with_defence = [row for row in rows if row.count("|") in (4, 5) and "---" not in row]
    bare = [row for row in with_defence if "`tests/" not in row and not _heads(row)]
    assert bare == []


def _heads(row: str) -> bool:
    """The head of a table, or a row of the adversaries."""
    first = row.split("|")[1].strip()
    heads = ("adversary", "CVE", "name", "stranger", "user", "record", "peer", "slip", "supplier")
    return first in heads and "`" not in row
