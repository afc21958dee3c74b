"""The shape of the house: no circle of imports, no crowded folder, wings of the server one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
CROWD = 20
"""So many Python files a folder may hold; what tools print (`schemas`) may be more."""

WINGS = ("observe", "loop", "net", "replication", "kraft", "api", "node")
"""The wings of server/: each imports only itself and those before it."""

CIRCLED = {"log": 12}
"""Rooms whose circles are still to be cut, and the files in the largest one.  To be empty."""


def modules() -> dict[str, Path]:
    found = {}
    for path in SOURCE.rglob("*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """What a file imports of ours, for the type checker only and inside functions too."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                yield name if name in MODULES else node.module


IMPORTS = {
    name: {other for other in imported(path) if other in MODULES} - {name} for name, path in MODULES.items()
}


def circles(imports: dict[str, set[str]]) -> list[list[str]]:
    """The sets of modules that reach each other (Tarjan), the largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in imports[name]:
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in imports:
        if name not in index:
            visit(name)
    return sorted(found, key=len, reverse=True)


def test_no_two_files_need_each_other() -> None:
    left: dict[str, list[str]] = {}
    for circle in circles(IMPORTS):
        room = "" if "barnabas" in circle else circle[0].split(".")[1]
        left.setdefault(room, circle)
    grown = {room: circle for room, circle in left.items() if len(circle) > CIRCLED.get(room, 0)}
    assert not grown


def test_the_wings_of_the_server_import_one_way() -> None:
    against = set()
    for name, others in IMPORTS.items():
        for other in others:
            one, two = wing(name), wing(other)
            if one is not None and two is not None and two > one:
                against.add((name, other))
    assert against == set()


def wing(name: str) -> int | None:
    """The place of a module's wing in the order; None outside the wings of server/."""
    parts = name.split(".")
    return WINGS.index(parts[2]) if parts[1:2] == ["server"] and len(parts) > 3 else None


def test_the_search_sees_a_circle() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_folder_is_crowded() -> None:
    folders = [path.parent for path in MODULES.values() if path.parent.name != "schemas"]
    assert {str(folder) for folder in folders if folders.count(folder) > CROWD} == set()
