"""What a user sees of an error of ours that went through Spark: its words, without Python's traceback.

Spark puts the traceback of a Python data source in front of what went wrong, in the query's exception, and has one
switch for the process that fails.  A process of Spark's ends after an error that it hands over, so that nothing
else loses its traceback.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from barnabas.errors import BarnabasError

__all__ = ["plainly"]

_SWITCH = "SPARK_HIDE_TRACEBACK"
Function = TypeVar("Function", bound=Callable[..., Any])


@contextmanager
def _plain() -> Iterator[None]:
    try:
        yield
    except BarnabasError:
        os.environ[_SWITCH] = "1"
        raise


def plainly(function: Function) -> Function:
    """`@plainly` on what Spark calls, also where that yields: a BarnabasError comes without a traceback."""
    if inspect.isgeneratorfunction(function):

        @functools.wraps(function)
        def yielding(*given: Any, **named: Any) -> Any:
            with _plain():
                yield from function(*given, **named)

        return yielding  # type: ignore[return-value]  # the same arguments and result

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        with _plain():
            return function(*given, **named)

    return called  # type: ignore[return-value]
