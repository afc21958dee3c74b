"""Planted bugs, which the simulator must find.

Each changes a few characters in the source of a function, given by name; `planted(bug)` runs the program with
the change.  If another guard would make the bug harmless, that guard is removed too (`also`). `seed` is a
seed that raises the alarm soon: `make test` runs each bug on it.  If the source of a function changes so that
the change no longer fits, `planted` says so.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from types import CodeType, FunctionType
from typing import Any

from barnabas.sim.quorum.mutants.first import FIRST, Bug, Change
from barnabas.sim.quorum.mutants.subtle import SUBTLE
from barnabas.sim.quorum.seed_run import Report, run_seed

__all__ = ["BUGS", "SEARCHED", "Bug", "Change", "find", "planted"]

BUGS: tuple[Bug, ...] = (*FIRST, *SUBTLE)
SEARCHED = 300
"""Seeds that a search looks at before it gives up."""


def _function(bug: Change) -> FunctionType:
    target: Any = import_module(f"barnabas.{bug.module}")
    for name in bug.function.split("."):
        target = inspect.getattr_static(target, name)
    if isinstance(target, property):
        target = target.fget
    if isinstance(target, classmethod | staticmethod):
        target = target.__func__
    assert isinstance(target, FunctionType), f"{bug.function} of {bug.module} is no function"
    return target


def _changed(name: str, bug: Change, function: FunctionType) -> CodeType:
    """The code of the function with the change.  Raises LookupError where it does not fit any more."""
    source = textwrap.dedent(inspect.getsource(function))
    if bug.old not in source:
        raise LookupError(f"{name}: {bug.module}.{bug.function} does not say {bug.old!r} any more")
    source = source.replace(bug.old, bug.new)
    lines = source.splitlines()
    while lines[0].startswith("@"):
        del lines[0]
    header = "from __future__ import annotations\n"
    space: dict[str, Any] = {}
    exec(compile(header + "\n".join(lines), f"<{name}>", "exec"), dict(function.__globals__), space)
    made: FunctionType = space[function.__name__]
    return made.__code__


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """Run with this bug."""
    functions = [_function(change) for change in bug.changes]
    good = [function.__code__ for function in functions]
    wrong = [_changed(bug.name, *pair) for pair in zip(bug.changes, functions, strict=True)]
    try:
        for function, code in zip(functions, wrong, strict=True):
            function.__code__ = code
        yield
    finally:
        for function, code in zip(functions, good, strict=True):
            function.__code__ = code


def find(bug: Bug, seeds: Iterable[int] = range(1, SEARCHED + 1)) -> Report | None:
    """The report of the first of these seeds that raises an alarm with this bug."""
    with planted(bug):
        for seed in seeds:
            report = run_seed(seed)
            if not report.ok:
                return report
    return None
