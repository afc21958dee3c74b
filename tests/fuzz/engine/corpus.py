"""Inputs that are kept: a text file for each target in the repository, an input in a line (base64)."""

from __future__ import annotations

import base64
import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

__all__ = ["FOLDER", "keep", "kept", "minimized", "worked", "working", "write_working"]

FOLDER = Path(__file__).parents[1] / "corpus"
WORKING = Path(__file__).parents[3] / ".fuzz"
"""The inputs of runs on this machine, a file each: too many for the repository."""
MOST, MOST_BYTES, LONGEST = 150, 24 * 1024, 2048


def kept(name: str) -> list[bytes]:
    """The inputs of the repository."""
    path = FOLDER / f"{name}.txt"
    return [base64.b64decode(line) for line in path.read_text().split()] if path.exists() else []


def keep(name: str, inputs: Iterable[bytes]) -> int:
    """Make these the inputs of the repository, as many as fit; returns how many."""
    left, lines = MOST_BYTES, []
    for data in sorted(set(inputs), key=lambda one: (len(one), one)):
        if len(lines) < MOST and len(data) <= min(left, LONGEST) and data:
            left -= len(data)
            lines.append(base64.b64encode(data).decode())
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.txt").write_text("".join(f"{line}\n" for line in lines))
    return len(lines)


def working(name: str) -> Path:
    """The folder of a target's inputs on this machine."""
    folder = WORKING / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def worked(name: str) -> Iterator[bytes]:
    """The inputs of this machine; a run that goes on meanwhile may take some away."""
    for path in list(working(name).iterdir()):
        with suppress(FileNotFoundError):
            yield path.read_bytes()


def write_working(name: str, inputs: Iterable[bytes]) -> Path:
    """Put inputs into it."""
    folder = working(name)
    for data in inputs:
        (folder / hashlib.sha1(data, usedforsecurity=False).hexdigest()).write_bytes(data)
    return folder


def minimized(inputs: Iterable[bytes], put: Callable[[bytes], object]) -> list[bytes]:
    """Those of the inputs, the short ones first, that reach a line of ours that none before them did."""
    reached: set[tuple[CodeType, int]] = set()
    found = []
    for data in sorted(set(inputs), key=len):
        lines: set[tuple[CodeType, int]] = set()

        def line(frame: FrameType, event: str, argument: Any, lines: Any = lines) -> Any:
            if event == "line":
                lines.add((frame.f_code, frame.f_lineno))
            return line

        def call(frame: FrameType, event: str, argument: Any) -> Any:
            name = frame.f_code.co_filename
            return line if "/barnabas/" in name or name[0] == "<" else None

        sys.settrace(call)
        try:
            put(data)
        finally:
            sys.settrace(None)
        if lines - reached:
            reached |= lines
            found.append(data)
    return found
