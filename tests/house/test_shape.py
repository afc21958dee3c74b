"""The shape of the house: no circle of imports, no crowded folder, wings that import one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
CROWD = 20
"""So many Python files a folder may hold; what tools print (`schemas`) may be more."""

WINGS = {
    "server": ("observe", "loop", "net", "replication", "kraft", "rights", "api", "node"),
    "broker": ("replicas", "requests", "groups", "transactions"),
}
"""The wings of a room: each imports only itself and those before it."""


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
    assert circles(IMPORTS) == []


def test_the_wings_of_a_room_import_one_way() -> None:
    against = set()
    for name, others in IMPORTS.items():
        for other in others:
            (room, one), (other_room, two) = wing(name), wing(other)
            if room == other_room and two > one >= 0:
                against.add((name, other))
    assert against == set()


def wing(name: str) -> tuple[str, int]:
    """The room of a module and the place of its wing in the order; -1 outside of wings."""
    _, room, inside, *more = [*name.split("."), "", ""]
    order = WINGS.get(room, ())
    return room, order.index(inside) if inside in order and any(more) else -1


def test_the_search_sees_a_module_out_of_order() -> None:
    assert wing("barnabas.broker.replicas.isr") < wing("barnabas.broker.requests.fetch")
    assert wing("barnabas.server.net.http")[1] == 2 and wing("barnabas.broker.purgatory")[1] == -1


def test_the_search_sees_a_circle() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [["a", "b", "c"]]


def test_no_folder_is_crowded() -> None:
    folders = [path.parent for path in MODULES.values() if path.parent.name != "schemas"]
    assert {str(folder) for folder in folders if folders.count(folder) > CROWD} == set()
