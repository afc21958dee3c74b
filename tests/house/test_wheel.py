"""The wheel, as a stranger gets it: the same each time, with its SBOM, installed into an empty environment."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tools.wheel import build, differences

ROOT = Path(__file__).parents[2]
EPOCH = 1_760_000_000


def built(tree: Path, **environment: str) -> Path:
    """The wheel of a copy: setuptools would leave its build/ in the checkout, stale files in it."""
    left_out = shutil.ignore_patterns("*.egg-info", "__pycache__", "*.so")
    shutil.copytree(ROOT / "src", tree / "src", ignore=left_out)
    for name in ("pyproject.toml", "README.md", "LICENSE", "setup.py"):
        shutil.copy(ROOT / name, tree / name)
    return build(tree, EPOCH, BARNABAS_COMPILE="no", **environment)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("wheel") / "tree", TZ="UTC")


def test_the_same_sources_give_the_same_wheel_elsewhere_and_later(wheel: Path, tmp_path: Path) -> None:
    """`make wheel` proves the same of the compiled one."""
    other = built(tmp_path / "deeper" / "another-name", TZ="Asia/Kolkata")
    assert differences(wheel, other) == []
    assert wheel.read_bytes() == other.read_bytes()


def test_the_wheel_says_what_is_in_it_and_what_it_asks_for(wheel: Path) -> None:
    inside = zipfile.ZipFile(wheel)
    (name,) = [name for name in inside.namelist() if "/sboms/" in name]
    said = json.loads(inside.read(name))
    assert name.endswith(".dist-info/sboms/barnabas.cdx.json")
    assert (said["bomFormat"], said["metadata"]["component"]["name"]) == ("CycloneDX", "barnabas")
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert len(said["components"]) == len(asked)
    assert all(text.startswith(one["name"]) for text, one in zip(asked, said["components"], strict=True))
    bom = pytest.importorskip("cyclonedx.model.bom").Bom.from_json(said)
    assert len(bom.components) == len(asked) and bom.serial_number


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
