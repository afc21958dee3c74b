"""Mutants: bugs planted on purpose, which the simulators must find.

Each changes a few characters in the source of a function, given by name; `applied(mutant)` runs the program
with the change.  If another guard would make the bug harmless, that guard is removed too (`also`).  If the
source of a function changes so that the change no longer fits, `applied` says so.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeVar

from barnabas.sim.kernel.report import Report

__all__ = ["SEARCHED", "Change", "Mutant", "applied", "find", "mutant"]

SEARCHED = 300
"""Seeds that a search looks at before it gives up."""
R = TypeVar("R", bound=Report)


class Change(NamedTuple):
    """`function` in `module`: `old` becomes `new`."""

    module: str
    function: str
    old: str
    new: str


class Mutant(NamedTuple):
    """`function` in `module`: `old` becomes `new`; `also`: more of that kind.

    `seed` is one that raises an alarm soon, and none without it; 0: no seed tried so far.  `guard` then names
    the test that finds the bug, or the guard that makes it harmless.
    """

    name: str
    says: str
    module: str
    function: str
    old: str
    new: str
    seed: int = 0
    also: tuple[Change, ...] = ()
    guard: str = ""

    @property
    def changes(self) -> tuple[Change, ...]:
        return (Change(*self[2:6]), *self.also)


def mutant(name: str, says: str, where: str, old: str, new: str, seed: int = 0, guard: str = "") -> Mutant:
    """A mutant of one function; `where` is "room.module function"."""
    module, function = where.split()
    return Mutant(name, says, module, function, old, new, seed, guard=guard)


def _function(change: Change) -> FunctionType:
    target: Any = import_module(f"barnabas.{change.module}")
    for name in change.function.split("."):
        target = inspect.getattr_static(target, name)
    if isinstance(target, property):
        target = target.fget
    if isinstance(target, classmethod | staticmethod):
        target = target.__func__
    target = inspect.unwrap(target)
    assert isinstance(target, FunctionType), f"{change.function} of {change.module} is no function"
    return target


def _changed(name: str, change: Change, function: FunctionType) -> CodeType:
    """The code of the function with the change.  Raises LookupError where it does not fit any more."""
    source = textwrap.dedent(inspect.getsource(function))
    if change.old not in source:
        raise LookupError(f"{name}: {change.module}.{change.function} does not say {change.old!r} any more")
    source = source.replace(change.old, change.new)
    lines = source.splitlines()
    while lines[0].startswith("@"):
        del lines[0]
    header = "from __future__ import annotations\n"
    space: dict[str, Any] = {}
    exec(compile(header + "\n".join(lines), f"<{name}>", "exec"), dict(function.__globals__), space)
    made: FunctionType = space[function.__name__]
    return made.__code__


@contextmanager
def applied(mutant: Mutant) -> Iterator[None]:
    """Run with this mutant."""
    functions = [_function(change) for change in mutant.changes]
    good = [function.__code__ for function in functions]
    wrong = [_changed(mutant.name, *pair) for pair in zip(mutant.changes, functions, strict=True)]
    try:
        for function, code in zip(functions, wrong, strict=True):
            function.__code__ = code
        yield
    finally:
        for function, code in zip(functions, good, strict=True):
            function.__code__ = code


def find(
    run_seed: Callable[[int], R], mutant: Mutant, seeds: Iterable[int] = range(1, SEARCHED + 1)
) -> R | None:
    """Return the report of the first of these seeds that raises an alarm with this mutant, and none without it.

    A seed that fails anyway shows nothing of the mutant.
    """
    for seed in seeds:
        with applied(mutant):
            report = run_seed(seed)
        if not report.ok and run_seed(seed).ok:
            return report
    return None
