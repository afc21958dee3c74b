"""Children that run our code start in a safe way, wherever their user stands."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.errors import BarnabasError
from barnabas.interpreter import POSIX_MODULES, python_words
from barnabas.testing import Cluster
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


WITHOUT = """
import sys
sys.modules[sys.argv.pop(1)] = None
from barnabas.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", POSIX_MODULES)
@pytest.mark.parametrize("command", ["start", "drill run bootstrap", "storage format -t x -c n.properties"])
def test_where_nodes_cannot_run_one_sentence_says_so(tmp_path: Path, name: str, command: str) -> None:
    properties = tmp_path / "n.properties"
    properties.write_text("process.roles=broker,controller\nnode.id=1\n")
    words = [sys.executable, "-c", WITHOUT, name, *command.split()]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr.startswith("error: nodes run on Linux and macOS, not on this system (")
    assert len(ran.stderr.splitlines()) == 2 and list(tmp_path.iterdir()) == [properties]


@pytest.mark.parametrize("name", POSIX_MODULES)
def test_where_nodes_cannot_run_the_fixtures_say_so(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(BarnabasError, match="Linux and macOS"):
        Cluster()


def test_the_commands_that_talk_to_a_cluster_load_none_of_what_windows_does_not_have() -> None:
    program = (
        "import sys\n"
        f"for name in {POSIX_MODULES}: sys.modules[name] = None\n"
        "import barnabas.testing.plugin, barnabas.aio, barnabas.client.admin.admin\n"
        "from barnabas import Consumer, Producer\n"
        "from barnabas.cli.main import main\n"
        "sys.exit(main(['topics', 'list', '-b', '127.0.0.1:1', '--timeout', '0.1']))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 3 and "Traceback" not in ran.stderr, ran.stderr
