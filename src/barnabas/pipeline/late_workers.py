"""Spark gives a Python worker ten seconds to start and call back, and no setting changes that.

Sources are planned in such workers, each started afresh.  On a machine that is overloaded one comes too late,
and Spark fails the query, or the call, that asked for it.  This says nothing about the data: a query goes on
from its checkpoint, so that one may simply start it again.

    LateWorkers(print).follow(start, look)      # start, look now and then, start again
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from barnabas.errors import BarnabasError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["LATE", "LateWorkers"]

Result = TypeVar("Result")

LATE = "Python worker failed to connect back"
"""What Spark says then, and at no other time."""


class LateWorkers:
    """How often Spark may still give up on a Python worker.  `tell` takes a line for the person who waits."""

    __slots__ = ("seen", "tell", "tries")

    def __init__(self, tell: Callable[[str], None], tries: int = 5) -> None:
        self.tell = tell
        self.tries = tries
        self.seen = 0

    def __repr__(self) -> str:
        return f"<LateWorkers {self.seen} of {self.tries}>"

    def forgives(self, error: BaseException | None) -> bool:
        """Whether to try again after this error.  Counts it, and says so."""
        if LATE not in str(error) or self.seen >= self.tries:
            return False
        self.seen += 1
        self.tell(
            "Spark gave up on a Python worker that took more than 10 s to start; "
            f"trying again ({self.seen} of {self.tries})"
        )
        return True

    def retry(self, action: Callable[[], Result]) -> Result:
        """What the action returns, tried again as long as errors are forgiven."""
        while True:
            try:
                return action()
            except Exception as error:
                if not self.forgives(error):
                    raise

    def follow(
        self,
        start: Callable[[], StreamingQuery],
        look: Callable[[StreamingQuery], bool],
        *,
        pause: float = 0.3,
    ) -> BaseException | None:
        """Start a query, and look at it every `pause` seconds until it ends, or `look` says that it shall.

        A query that failed because a worker was late starts again and goes on from its checkpoint.  It is looked
        at once more when it has ended.  Returns what it failed with, also where it did not start; it is stopped in
        any case.  Raises BarnabasError where `start` does.
        """
        while True:
            try:
                query = self.retry(start)
            except BarnabasError:
                raise
            except Exception as error:  # Spark refuses a setting, or cannot read its checkpoint
                return error
            try:
                while query.isActive:
                    time.sleep(pause)
                    if look(query):
                        return None
                failure = query.exception()
                if failure is None:
                    look(query)
                    return None
            finally:
                query.stop()
            if not self.forgives(failure):
                return failure
