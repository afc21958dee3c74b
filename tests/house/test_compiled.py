"""What was compiled is what the source says now."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.wire import walk

PACKAGE = Path(__file__).parents[2] / "src" / "barnabas"
SOURCE = PACKAGE / "wire" / "walk.py"
BUILT_FROM = PACKAGE / "wire" / "walk.built"


def test_the_walk_was_compiled_from_its_present_source() -> None:
    if not walk.COMPILED or not BUILT_FROM.exists():
        pytest.skip("nothing was compiled here")
    assert BUILT_FROM.read_bytes() == SOURCE.read_bytes(), "compile it again: make venv"


@pytest.mark.parametrize("compiled", [True, False])
def test_machine_code_that_is_older_than_its_source_is_refused_with_what_to_do(
    tmp_path: Path, compiled: bool
) -> None:
    """Else what is new in the source is missing, and a node says so in the middle of a request."""
    if compiled and not walk.COMPILED:
        pytest.skip("nothing was compiled here")
    copy = tmp_path / "barnabas"
    (copy / "wire").mkdir(parents=True)
    machine_code = PACKAGE.glob("wire/walk*.so") if compiled else ()
    for file in (PACKAGE / "__init__.py", PACKAGE / "wire" / "__init__.py", SOURCE, *machine_code):
        shutil.copy(file, copy / file.relative_to(PACKAGE))

    def imported() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "import barnabas, barnabas.wire.walk as w; print(w.__file__)"]
        return subprocess.run(
            command,
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path)},
            capture_output=True,
            text=True,
            check=False,
        )

    assert imported().stdout.startswith(str(copy)), "an installed package has no walk.built"
    shutil.copy(SOURCE, copy / "wire" / "walk.built")
    assert imported().returncode == 0
    with (copy / "wire" / "walk.py").open("a") as source:
        source.write("NEW = 1\n")
    run = imported()
    if compiled:
        assert run.returncode == 1
        assert "was compiled from another walk.py than is there now: `make venv`" in run.stderr
    else:
        assert run.stdout.startswith(str(copy)), "the source itself is never old"


def test_the_walk_says_whether_it_is_compiled() -> None:
    assert walk.__file__ is not None
    assert walk.__file__.endswith(".so") == walk.COMPILED
    spec = importlib.util.spec_from_file_location("interpreted", SOURCE)
    assert spec is not None and spec.loader is not None
    interpreted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(interpreted)
    assert interpreted.COMPILED is False
