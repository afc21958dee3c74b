"""The shape of the code: short files, short functions, a docstring where a story begins, no stray paths."""

from __future__ import annotations

import ast
import re
import statistics
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FILES = sorted(path for path in SOURCE.rglob("*.py"))
NAMES = re.compile(r"(^|_)(util|utils|helper|helpers|manager|common|misc)(_|$)")

MOST_LINES = 600
MEDIAN_LINES = 200
MOST_FUNCTION_LINES = 70
MOST_ATTRIBUTES = 25


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


def test_no_file_is_longer_than_a_story() -> None:
    long = {str(path.relative_to(ROOT)): lines(path) for path in FILES if lines(path) > MOST_LINES}
    assert not long


def test_the_median_file_is_read_in_one_sitting() -> None:
    assert statistics.median(lines(path) for path in FILES if path.name != "__init__.py") <= MEDIAN_LINES


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_says_what_it_is_and_keeps_its_functions_short(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree), "a module begins with what it is for"
    assert not NAMES.search(path.stem), "name a file after what it holds"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= MOST_FUNCTION_LINES, f"{node.name} has {length} lines"
        if isinstance(node, ast.ClassDef):
            assert not node.name.endswith(("Util", "Utils", "Helper", "Manager")), node.name


def test_a_number_in_text_is_told_by_isdecimal() -> None:
    """`"²".isdigit()` is true, and int() of it raises: such a file, port or offset would end the program."""
    of_bytes = {"cli/records/template.py"}
    found = [path for path in FILES if ".isdigit()" in path.read_text()]
    assert {str(path.relative_to(SOURCE / "barnabas")) for path in found} <= of_bytes


def test_nobody_is_told_to_install_by_name_what_the_index_may_not_have_from_us() -> None:
    places = [*FILES, *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*"), ROOT / "README.md"]
    named = re.compile(r"pip3? install (-\S+ )*['\"]?barnabas\b")
    assert [
        str(path) for path in places if path.is_file() and named.search(path.read_text(errors="ignore"))
    ] == []


def attributes(cls: ast.ClassDef) -> set[str]:
    """What an object of the class keeps: what is assigned to `self`, and annotated fields; properties apart."""
    found = {
        item.target.id
        for item in cls.body
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name)
    }
    for node in ast.walk(cls):
        if (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name)
        ):
            found |= {node.attr} if node.value.id == "self" else set()
    return found - {item.name for item in cls.body if isinstance(item, ast.FunctionDef)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_class_keeps_too_much(path: Path) -> None:
    if path.parent.name == "schemas":
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            assert len(attributes(node)) <= MOST_ATTRIBUTES, (
                f"{node.name} keeps {len(attributes(node))} attributes"
            )


def tracked_text() -> list[tuple[str, str]]:
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    found = []
    for name in names.stdout.split():
        path = ROOT / name
        if path.is_file() and not name.startswith("tests/fixtures/"):
            content = path.read_bytes()
            if b"\0" not in content:
                found.append((name, content.decode("utf-8", "replace")))
    return found


def test_no_tracked_file_names_a_machine_or_a_registry() -> None:
    pattern = re.compile(
        r"(^|[^A-Za-z0-9_.])/(wo" + r"rk|fa" + r"rm)/|\.\./sha" + r"red"
        r"|https?://[^ /\"]*(pyp"
        + r"i|pythonho"
        + r"sted|ma"
        + r"ven|npmj"
        + r"s|cra"
        + r"tes|gol"
        + r"ang|deb"
        + r"ian)",
        re.MULTILINE,
    )
    hits = [f"{name}: {match[0]!r}" for name, text in tracked_text() for match in pattern.finditer(text)]
    assert not hits


def test_the_package_ships_its_type_marker() -> None:
    assert (SOURCE / "barnabas" / "py.typed").exists()
