"""Every test that the threat model names is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


KNOWN = """
2026-111108 2026-111115 2026-110985 2026-33557 2026-111073 2026-83525 2026-41115 2026-35554 2026-111496 2025-27817
2025-27818 2025-27819 2023-25194 2024-31141 2024-56128 2024-27309 2023-34455 2022-34917 2021-38153 2019-12399
2018-17196 2018-1288 2017-12610 2023-50976 2026-123270 2026-58253 2023-47090 2026-33218 2026-33219 2026-58250
2019-13126 2026-4827 2026-4828 2026-105949 2023-52251 2026-5562 2026-10143 2026-102946 2026-96760 2026-28802
2026-32597 2026-48523 2026-102268
"""
"""Weaknesses of Kafka, of others of its kind, and of libraries for the same work."""


def test_every_known_weakness_of_others_has_its_row() -> None:
    table = PAGE.read_text().partition("## Known weaknesses of others")[2]
    assert [number for number in KNOWN.split() if not re.search(rf"\b{number}\b", table)] == []


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
