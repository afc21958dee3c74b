"""Docs move with the code: generated pages are up to date, and links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.write_docs import PAGES

from barnabas.server.api.table import TABLE
from barnabas.wire.apis import ROWS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", PAGES)
def test_a_generated_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == PAGES[name](), "run `make docs` and commit the page"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted(ROOT.glob("docs/**/*.md")), ids=lambda p: p.name
)
def test_links_lead_to_files_that_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_path_that_the_architecture_names_exists() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    packages = {path.name for path in (ROOT / "src" / "barnabas").rglob("*") if path.is_dir()}
    for named in set(re.findall(r"`([a-z_./]+/[a-z_./]*)`", text)):
        places = [
            base / (named + suffix) for base in (ROOT, ROOT / "src" / "barnabas") for suffix in ("", ".py")
        ]
        assert any(place.exists() for place in places) or named.rstrip("/") in packages, named


def test_every_decision_has_a_number_of_its_own() -> None:
    numbers = [path.name[:4] for path in sorted((ROOT / "docs" / "decisions").glob("*.md"))]
    assert len(set(numbers)) == len(numbers)


def api_keys(cell: str) -> set[int]:
    """The keys in `transactions (24-28, 61)`."""
    found: set[int] = set()
    for inside in re.findall(r"\(([\d, -]+)\)", cell):
        for part in inside.split(","):
            first, _, last = part.strip().partition("-")
            found |= set(range(int(first), int(last or first) + 1))
    return found


def test_the_page_of_compatibility_names_every_api_that_is_not_served_and_no_other_as_not_advertised() -> (
    None
):
    page = (ROOT / "docs" / "compatibility.md").read_text()
    section = page.partition("## What is not served")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    named = {key: answer for what, answer in rows for key in api_keys(what)}
    served = {row.key for row in TABLE}
    assert {row[0] for row in ROWS} - served <= set(named)
    assert not [key for key in served if named.get(key, "").startswith("not advertised")]
