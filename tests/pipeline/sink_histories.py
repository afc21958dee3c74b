"""Histories of a sink over a real node, as Spark may run it: tasks that run twice, drivers that die, zombies.

Each history is drawn from a seed and ends with a run that succeeds; `expected` is what a reader of committed
records must find then.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from barnabas.client.cluster import Cluster
from barnabas.client.consumer import Consumer
from barnabas.errors import BarnabasError
from barnabas.pipeline.sink import batch as batch_module
from barnabas.pipeline.sink import task as task_module
from barnabas.pipeline.sink.batch import SinkDriver
from barnabas.pipeline.sink.decision_log import DecisionLog
from barnabas.pipeline.sink.decisions import Claim, Done
from barnabas.pipeline.sink.options import SinkOptions
from barnabas.pipeline.sink.task import write_prepared

__all__ = ["BATCHES", "History", "committed"]

BATCHES = 4
TASKS = 3


class Died(BaseException):
    """A process dies here.  (No Exception: nothing may catch it.)"""


class FailedError(Exception):
    """A step fails, and Spark hears of it."""


class History:
    """One query: micro-batches, one after the other, whatever dies."""

    def __init__(self, bootstrap: str, topic: str, name: str, seed: int) -> None:
        self.rng = random.Random(seed)
        self.options = SinkOptions.parse(
            {"kafka.bootstrap.servers": bootstrap, "topic": topic, "kafka.linger.ms": "0"}
        )
        self.topic = topic
        self.name = name
        self.zombies: list[tuple[Claim, int, int]] = []
        """Tasks of runs that died, which may still write."""
        self.deaths = 0
        self._drivers: list[SinkDriver] = []
        self._late: list[tuple[int, list[Done]]] = []

    def rows(self, batch: int, task: int) -> list[str]:
        return [f"{batch}-{task}-{row}" for row in range((batch + task) % 3)]

    def expected(self) -> Counter[str]:
        return Counter(
            row for batch in range(BATCHES) for task in range(TASKS) for row in self.rows(batch, task)
        )

    def run(self) -> None:
        """Everything; each micro-batch is tried until it succeeds."""
        for batch in range(BATCHES):
            while not self._attempt(batch):
                self.deaths += 1
                self.close()
        self.new_driver().begin()  # nothing is left open
        self.close()

    def new_driver(self) -> SinkDriver:
        cluster = Cluster(self.options.bootstrap, timeout=10.0)
        driver = SinkDriver(self.options.bootstrap, cluster, self.name)
        self._drivers.append(driver)
        return driver

    def close(self) -> None:
        self._forget_workers()
        for driver in self._drivers:
            driver.close()
        self._drivers.clear()

    def _forget_workers(self) -> None:
        for worker in task_module._workers.values():
            for producer in [*worker.producers.values()]:
                worker.forget(producer)
        task_module._workers.clear()

    def _attempt(self, batch: int) -> bool:
        """A run from planning to commit; false where something died or failed."""
        rng = self.rng
        driver, done = self.new_driver(), list[Done]()
        with dying(rng.randrange(60) if rng.random() < 0.6 else None, rng.choice((Died, FailedError))):
            try:
                claim = driver.begin()
                self._late_commit()
                done += [self._task(claim, batch, task) for task in range(TASKS)]
                if rng.random() < 0.1:
                    raise Died
                self._zombie_writes()
                driver = (
                    self.new_driver() if rng.random() < 0.5 else driver
                )  # Spark commits in another process
                driver.commit(batch, done)
                done = []
                if rng.random() < 0.2:
                    raise Died  # before Spark notes that the micro-batch is done
            except Died:
                if len(done) == TASKS:
                    self._late.append((batch, done))
                return False
            except FailedError:
                self.new_driver().abort(batch, [*done, None])
                return False
        return True

    def _late_commit(self) -> None:
        """A driver that was taken for dead commits what its tasks have prepared: it is fenced."""
        if self._late and self.rng.random() < 0.5:
            with suppress(BarnabasError):
                self.new_driver().commit(*self._late.pop())

    def _task(self, claim: Claim, batch: int, task: int) -> Done:
        """A task; it may run twice, and only one of its attempts is handed in."""
        if self.rng.random() < 0.3:
            self.zombies.append((claim, batch, task))
        if self.rng.random() < 0.3:
            self._write(claim, batch, task)
        if self.rng.random() < 0.3:
            self._forget_workers()  # another worker process
        return self._write(claim, batch, task)

    def _write(self, claim: Claim, batch: int, task: int) -> Done:
        rows: Iterator[Any] = iter(
            [(self.topic, row, None, None, (), None, None) for row in self.rows(batch, task)]
        )
        return write_prepared(self.options, self.name, claim, batch, rows)

    def _zombie_writes(self) -> None:
        """A task of an earlier attempt goes on, in a worker of its own."""
        if self.zombies and self.rng.random() < 0.4:
            kept = dict(task_module._workers)
            task_module._workers.clear()
            self._write(*self.zombies.pop())
            self._forget_workers()
            task_module._workers.update(kept)


_STEPS: tuple[tuple[Any, str], ...] = (
    (DecisionLog, "claim"),
    (DecisionLog, "last"),
    (DecisionLog, "write"),
    (batch_module, "end_prepared"),
    (batch_module, "list_transactions"),
    (task_module, "_send"),
)


@contextmanager
def dying(step: int | None, kind: type[BaseException]) -> Iterator[None]:
    """Raised right before (even) or right after (odd) this step of driver or task, once; None: never."""
    left = [step]

    def around(action: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*given: Any, **named: Any) -> Any:
            before, after = left[0] == 0, left[0] == 1
            if left[0] is not None:
                left[0] = None if before or after else left[0] - 2
            if before:
                raise kind
            answer = action(*given, **named)
            if after:
                raise kind
            return answer

        return stepped

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in _STEPS:
            patch.setattr(owner, name, around(getattr(owner, name)))
        yield


def committed(bootstrap: str, topic: str) -> Counter[str]:
    """What readers of committed records find."""
    with Consumer(bootstrap, topic, start="earliest", isolation="read_committed") as consumer:
        consumer.stop_at(consumer.offsets_at("latest"))
        return Counter((message.value or b"").decode() for message in consumer)
