"""docs/kips.md says where every clause of docs/clauses.txt stands, and the files that its rows name exist."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
STATES = ("built", "part", "superseded", "missing")
ROW = re.compile(r"^\| (\d{3}-\d+) \| (.+?) \| (\w+) \| `([^`]+)` \| (.*) \|$", re.MULTILINE)
HEADING = re.compile(r"^## \d{3} (.+)$", re.MULTILINE)
TOTAL = re.compile(r"^\| \d{3} .+? \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE)
CLAUSE = re.compile(r"(\d{3})-(\d+) (.+)")
KIPS = (ROOT / "docs" / "kips.md").read_text()
CLAUSES = (ROOT / "docs" / "clauses.txt").read_text()


def rows() -> list[tuple[str, str, str, str, str]]:
    return ROW.findall(KIPS)


def documents() -> dict[str, tuple[str, list[tuple[int, str]]]]:
    """Of each document, by the first part of its ids: its title and its clauses (number, words)."""
    found: dict[str, tuple[str, list[tuple[int, str]]]] = {}
    for line in CLAUSES.splitlines():
        if document := re.fullmatch(r"document (\d{3}) (.+)", line):
            found[document[1]] = document[2], []
        elif clause := CLAUSE.fullmatch(line):
            found[clause[1]][1].append((int(clause[2]), clause[3]))
    return found


def test_the_list_of_clauses_has_nothing_that_is_neither_document_nor_section_nor_clause() -> None:
    for line in CLAUSES.splitlines():
        assert not line or line.startswith(("# ", "document ", "section ")) or CLAUSE.fullmatch(line), line


def test_every_section_of_every_document_has_a_clause_or_says_why_it_has_none() -> None:
    for section in CLAUSES.split("\nsection ")[1:]:
        name, *clauses = section.split("\ndocument ")[0].strip().splitlines()
        assert bool(clauses) != name.endswith(")"), name


def test_the_clauses_of_a_document_are_numbered_without_a_gap() -> None:
    for id_, (_, clauses) in documents().items():
        assert sorted(number for number, _ in clauses) == list(range(1, len(clauses) + 1)), id_


def test_every_clause_of_every_document_has_its_row_in_the_same_words() -> None:
    expected = [
        (f"{id_}-{number}", words)
        for id_, (_, clauses) in documents().items()
        for number, words in sorted(clauses)
    ]
    assert [(row[0], row[1]) for row in rows()] == expected
    assert HEADING.findall(KIPS) == [title for title, _ in documents().values()]


def test_no_row_is_overlooked_because_of_its_form() -> None:
    lines = [line for line in KIPS.splitlines() if re.match(r"\| \d{3}-", line)]
    assert len(lines) == len(rows())


def test_a_row_has_a_state_and_names_files_that_exist() -> None:
    for id_, _, state, where, remark in rows():
        assert state in STATES, id_
        assert (ROOT / "src" / "barnabas" / where).exists(), f"{id_}: {where}"
        for name in re.findall(r"(?:tests|docs)/[\w./-]+\w", remark):
            assert (ROOT / name).exists(), f"{id_}: {name}"


def test_the_rows_of_a_release_of_kafka_name_files_that_exist() -> None:
    rows = re.findall(r"^\| (?:KIP-\d+)? ?\| .+? \| (\w+) \| `([^`]+)` \| (.*) \|$", KIPS, re.MULTILINE)
    assert len(rows) > 10
    for state, where, remark in rows:
        named = re.findall(r"tests/[\w./-]+\w", remark)
        assert state in STATES and (named or state != "built"), remark
        assert (ROOT / "src" / "barnabas" / where).exists(), where
        assert all((ROOT / name).exists() for name in named), remark


def test_what_is_called_built_names_the_test_that_shows_it() -> None:
    bare = [row[0] for row in rows() if row[2] == "built" and "tests/" not in row[4]]
    assert not bare


def test_the_table_of_totals_counts_the_rows() -> None:
    """What is missing stands at the top of the page."""
    counts = Counter((row[0][:3], row[2]) for row in rows())
    totals = [
        (len(clauses), *(counts[id_, state] for state in STATES)) for id_, (_, clauses) in documents().items()
    ]
    assert [tuple(map(int, row)) for row in TOTAL.findall(KIPS)] == totals
