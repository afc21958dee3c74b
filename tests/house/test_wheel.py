"""The wheel, as a stranger gets it: built, installed into an empty environment, compiled, started."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    tree = target / "tree"  # a copy: setuptools would leave its build/ in the checkout, stale files in it
    shutil.copytree(ROOT / "src", tree / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", target, tree],
        check=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
    )
    (built,) = target.glob("barnabas-*.whl")
    return built


def test_the_wheel_holds_the_packages_the_type_marker_and_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "barnabas/py.typed" in names
    assert "barnabas/model.py" in names
    assert "pyspark_barnabas/__init__.py" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests", "bench", "tools"))]


def test_an_empty_environment_runs_the_installed_command_from_bytecode(wheel: Path, tmp_path: Path) -> None:
    # Only the wheel itself is installed: the dependencies are those of this environment.
    target = tmp_path / "site"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--compile", "--target", target, wheel],
        check=True,
        env=environment,
    )
    assert list((target / "barnabas").rglob("*.pyc")), "without .pyc every start costs 0.3 s more"
    run = subprocess.run(
        [sys.executable, "-c", "import sys, barnabas.cli.main as m; sys.exit(m.main(['--version']))"],
        env={**environment, "PYTHONPATH": str(target)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("barnabas ")
