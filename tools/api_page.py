"""The page of the public API, made from docstrings; examples/api has a run example of each class."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from barnabas.client.both.methods import either_way

__all__ = ["EXAMPLES", "PUBLIC", "api"]

EXAMPLES = Path(__file__).parents[1] / "examples" / "api"
PUBLIC = ("barnabas", "barnabas.aio", "barnabas.testing")
_HEAD = """# The API

Everything public of `barnabas`, from its docstrings. [client.md](client.md) explains the client by task,
[testing.md](testing.md) the test fixtures. A test runs each example with a node at 127.0.0.1:9092.
`make docs` writes this page.
"""


def api() -> str:
    """The whole page."""
    import importlib

    lines = [_HEAD]
    for name in PUBLIC:
        lines += [f"## {name}\n", *_module(importlib.import_module(name))]
    return "\n".join(lines).rstrip() + "\n"


def members(cls: type) -> dict[str, Any]:
    """The public methods and properties of a class, those of its bases in this package first, as declared."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("barnabas."):
            found |= {name: member for name, member in vars(base).items() if not name.startswith("_")}
    return {
        name: getattr(cls, name) if isinstance(member, either_way) else member
        for name, member in found.items()
        if name not in getattr(cls, "_fields", ())
    }


def _module(module: ModuleType) -> Iterator[str]:
    short = module.__name__.removeprefix("barnabas").lstrip(".")
    for name in module.__all__:
        value = getattr(module, name)
        if inspect.isclass(value):
            example = EXAMPLES / f"{short}.{name}.py" if short else EXAMPLES / f"{name}.py"
            yield from _class(f"{module.__name__}.{name}", value, example)


def _class(name: str, cls: type, example: Path) -> Iterator[str]:
    yield f"### {name}\n"
    if not issubclass(cls, tuple | int):
        yield f"```python\n{cls.__name__}{_signature(cls)}\n```\n"
    yield f"{inspect.getdoc(cls)}\n"
    if example.exists():
        yield f"```python\n{example.read_text()}```\n"
    if issubclass(cls, int):
        return
    for attribute, member in members(cls).items():
        if isinstance(member, property):
            yield f"**{attribute}** {_said(member)}\n"
        elif inspect.isfunction(member) or isinstance(member, classmethod | staticmethod):
            function = getattr(cls, attribute)
            words = "async " if inspect.iscoroutinefunction(inspect.unwrap(function)) else ""
            yield f"**{words}{attribute}**`{_signature(function)}`\n\n{_said(function)}\n"


def _said(member: Any) -> str:
    return inspect.getdoc(member) or ""


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except ValueError:
        return "(...)"
    kept = [parameter for parameter in signature.parameters.values() if parameter.name not in ("self", "cls")]
    plain = [parameter.replace(annotation=_Bare(parameter.annotation)) for parameter in kept]
    ends = signature.return_annotation
    returns = inspect.Signature.empty if ends in ("None", inspect.Signature.empty) else _Bare(ends)
    return str(signature.replace(parameters=plain, return_annotation=returns))


class _Bare:
    """An annotation that prints as it is written, without quotes."""

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def __repr__(self) -> str:
        return (
            self.annotation if isinstance(self.annotation, str) else inspect.formatannotation(self.annotation)
        )
