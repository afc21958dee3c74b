"""Who may import whom: the walls of the house, as ARCHITECTURE.md draws them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "barnabas"

WORDS = {"model", "errors"}
OPEN = WORDS | {"config", "settings", "ports", "version"}
BELOW = {
    "model": set(),
    "errors": {"model"},
    "config": WORDS | {"settings"},
    "settings": WORDS,
    "ports": WORDS,
    "version": set(),
    "interpreter": WORDS,
    "scratch": set(),
    "extras": {"errors"},
    "wire": OPEN,
    "log": OPEN | {"wire"},
    "raft": WORDS | {"ports"},
    "security": WORDS,
    "controller": OPEN | {"wire", "log", "security"},
    "broker": OPEN | {"wire", "log", "security", "controller.image"},
    "client": OPEN | {"wire", "security", "extras"},
    "aio": {"client"},
    "server": OPEN
    | {"wire", "log", "raft", "security", "controller", "broker", "client", "interpreter", "extras"},
    "pipeline": OPEN | {"wire", "client", "interpreter", "scratch", "extras"},
    "console": OPEN | {"wire", "client"},
    "cli": OPEN
    | {"security", "wire", "log", "client", "pipeline", "sim", "testing", "raft.membership.recovery"}
    | {"controller.snapshot", "controller.feature_levels", "controller.image"}
    | {"server.node", "server.loop.system", "console", "interpreter", "scratch", "extras"},
    "sim": OPEN | {"wire", "log", "raft", "security", "controller", "broker", "server", "client"},
    "testing": OPEN
    | {"wire", "log", "raft", "security", "controller", "broker", "server", "client", "sim"}
    | {"interpreter", "scratch"},
}

# Cores are functions of (state, message, now): they may not even see these.
PURE = ("raft", "security", "controller", "broker", "wire")
IMPURE = {
    "asyncio",
    "socket",
    "selectors",
    "ssl",
    "threading",
    "time",
    "random",
    "secrets",
    "uuid",
    "os",
    "io",
}
IMPURE |= {"pathlib", "tempfile", "shutil", "subprocess", "concurrent", "multiprocessing", "signal"}
MAY_ASYNC = ("server", "client", "console", "testing", "sim")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return parts[0]


def imports(path: Path) -> Iterator[tuple[int, str, bool]]:
    """(line, dotted name, only for the type checker) of everything a file imports."""
    tree = ast.parse(path.read_text())
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, id(node) in typing_only
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            base = node.module or ""
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}", id(node) in typing_only


def allowed(own: str, target: str) -> bool:
    """Whether a file of room `own` may import `barnabas.<target>`."""
    return any(f"{target}.".startswith(f"{grant}.") for grant in {own} | BELOW[own])


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_what_its_room_may_see(path: Path) -> None:
    own = room(path)
    if own in ("__init__", "__main__"):
        return
    assert own in BELOW, f"{own} is a new room: give it a row in BELOW and in ARCHITECTURE.md"
    for line, name, typing_only in imports(path):
        top = name.split(".")[0]
        where = f"{path.relative_to(SOURCE)}:{line}"
        if top == "barnabas":
            target = name.removeprefix("barnabas").lstrip(".")
            assert not target or allowed(own, target), f"{where}: {own} may not import {target}"
        elif not typing_only:
            assert own not in PURE or top not in IMPURE, f"{where}: {own} is pure, it may not import {top}"
            assert top != "asyncio" or own in MAY_ASYNC, f"{where}: asyncio belongs to {', '.join(MAY_ASYNC)}"


LOG_FLOORS = ("files", "segments", "", "cleaning", "directories")
"""The floors of log/, lowest first; "" are the modules of one log, producers included."""


def _log_floor(name: str) -> int:
    folder = name.split(".")[2]
    return LOG_FLOORS.index(folder if folder in LOG_FLOORS else "")


@pytest.mark.parametrize("path", sorted((SOURCE / "log").rglob("*.py")), ids=lambda path: path.stem)
def test_a_file_of_a_log_imports_nothing_from_a_floor_above(path: Path) -> None:
    own = _log_floor(".".join(("barnabas", *path.relative_to(SOURCE).parts)))
    for line, name, _ in imports(path):
        if name.startswith("barnabas.log."):
            assert _log_floor(name) <= own, f"{path.relative_to(SOURCE)}:{line}: {name} lies above it"


def test_the_wall_test_sees_a_hole() -> None:
    assert not allowed("raft", "wire.records")
    assert not allowed("broker", "server.net.connection")
    assert not allowed("broker", "controller.decisions.topics")
    assert allowed("broker", "controller.image")
    assert not allowed("pipeline", "log.segments.segment")
