"""Children that run our code start in a safe way, wherever their user stands."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.interpreter import python_words
from barnabas.version import __version__

SOURCE = Path(__file__).parents[2] / "src"


def test_only_one_place_has_the_words_that_start_a_python() -> None:
    starts = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in SOURCE.rglob("*.py")
        if "sys.executable" in (text := path.read_text())
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.List) and any(ast.unparse(part) == "sys.executable" for part in node.elts)
    ]
    assert [place.partition(":")[0] for place in starts] == ["barnabas/interpreter.py"]


@pytest.mark.parametrize("name", ["types", "queue", "select"])
def test_a_child_starts_in_a_folder_with_a_module_named_as_one_of_pythons(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong one')\n")
    words = python_words("barnabas", "--version")
    assert words[0] == sys.executable
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.returncode) == (f"barnabas {__version__}\n", 0), ran.stderr
