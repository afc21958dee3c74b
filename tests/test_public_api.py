"""The public API is what tests/public_api.txt says; a change there is a change for users (CHANGELOG.md).

After a wanted change: `python -m tests.test_public_api > tests/public_api.txt`, and read the diff.
"""

from __future__ import annotations

import inspect
import subprocess
import sys
from pathlib import Path

from tools.api_page import members

import barnabas
import barnabas.aio
import barnabas.testing

SNAPSHOT = Path(__file__).parent / "public_api.txt"


def described() -> list[str]:
    lines: list[str] = []
    for module in (barnabas, barnabas.aio, barnabas.testing):
        for name in sorted(module.__all__):
            lines += thing(f"{module.__name__}.{name}", getattr(module, name))
    return lines


def thing(name: str, value: object) -> list[str]:
    if not inspect.isclass(value):
        return [f"{name}: {type(value).__name__}"]
    if name.endswith("ErrorCode"):
        return [f"{name}: {len(value.__members__)} codes"]  # type: ignore[attr-defined]
    if issubclass(value, tuple) and hasattr(value, "_fields"):
        lines = [f"{name}({', '.join(value._fields)})"]
    else:
        lines = [f"{name}{signature(value)}"]
    for attribute, member in sorted(members(value).items()):
        if isinstance(member, property):
            lines.append(f"{name}.{attribute}")
        elif isinstance(member, classmethod | staticmethod) or inspect.isfunction(member):
            lines.append(f"{name}.{attribute}{signature(getattr(value, attribute))}")
    return lines


def signature(value: object) -> str:
    try:
        return str(inspect.signature(value))  # type: ignore[arg-type]
    except ValueError:
        return "(...)"


def test_the_public_api_is_what_the_snapshot_says() -> None:
    assert described() == SNAPSHOT.read_text().splitlines()


def test_every_public_thing_says_how_it_is_called() -> None:
    """Docstrings begin with a call, so that `help()` answers at once."""
    for cls in (barnabas.Producer, barnabas.Consumer, barnabas.Admin, barnabas.testing.Cluster):
        for name, member in [("", cls), *members(cls).items()]:
            if inspect.isfunction(member) or inspect.isclass(member):
                assert (member.__doc__ or "").startswith("`"), f"{cls.__name__}.{name}"


def test_importing_barnabas_loads_no_room() -> None:
    code = "import barnabas, sys; print([m for m in sys.modules if m.startswith('barnabas.')])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(barnabas, "Produzer")
    assert set(barnabas.__all__) <= set(dir(barnabas))


if __name__ == "__main__":
    print("\n".join(described()))
