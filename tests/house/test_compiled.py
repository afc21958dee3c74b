"""What was compiled is what the source says now."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path

import pytest

from barnabas.wire import walk

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "barnabas" / "wire" / "walk.py"
BUILT_FROM = ROOT / "build" / "walk.sha256"


def test_the_walk_was_compiled_from_its_present_source() -> None:
    if not walk.COMPILED or not BUILT_FROM.exists():
        pytest.skip("nothing was compiled here")
    digest = hashlib.sha256(SOURCE.read_bytes()).hexdigest()
    assert BUILT_FROM.read_text() == digest, "compile it again: touch setup.py && make venv"


def test_the_walk_says_whether_it_is_compiled() -> None:
    assert walk.__file__ is not None
    assert walk.__file__.endswith(".so") == walk.COMPILED
    spec = importlib.util.spec_from_file_location("interpreted", SOURCE)
    assert spec is not None and spec.loader is not None
    interpreted = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(interpreted)
    assert interpreted.COMPILED is False
