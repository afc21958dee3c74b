"""The Spark process as the demo sees it: started, listened to, told where the stream ends."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from barnabas.errors import BarnabasError
from barnabas.pipeline.demo.children import Child
from barnabas.pipeline.offsets import Positions

__all__ = ["Stream"]


class Stream:
    """`jobs.flights_query` as a child process.  Numbers may be read at any time from another thread."""

    def __init__(
        self, bootstrap: str, topic: str, output: str, work: str, say: Callable[[str], None]
    ) -> None:
        module = "barnabas.pipeline.jobs.flights_query"
        named = {"bootstrap": bootstrap, "topic": topic, "output": output, "work": work}
        words = [word for name, value in named.items() for word in (f"--{name}", value)]
        self.say = say
        """Called from the listening thread."""
        self.ready: dict[str, Any] = {}
        self.answer: dict[str, Any] = {}
        self.failure: str | None = None
        self.through = 0
        self.batch = -1
        self.batch_ms = 0
        self.child = Child(
            "spark", [sys.executable, "-m", module, *words], os.path.join(work, "spark.log"), talks=True
        )
        self._listener = threading.Thread(target=self._listen, name="spark-says", daemon=True)
        self._listener.start()

    def __repr__(self) -> str:
        return f"<Stream batch={self.batch} through={self.through} ready={bool(self.ready)}>"

    def finish_at(self, ends: Positions) -> None:
        """Say where the stream ends; the answer comes when it was read up to there."""
        assert self.child.process.stdin is not None
        try:
            self.child.process.stdin.write(ends.text().encode() + b"\n")
            self.child.process.stdin.flush()
        except OSError as error:
            raise self.died() from error

    def check(self) -> None:
        """Raises BarnabasError when the process failed or is gone without an answer."""
        if self.failure is not None or not (self.child.running or self.answer or self._listener.is_alive()):
            raise self.died()

    def died(self) -> BarnabasError:
        """What to raise when the process is gone."""
        why = self.failure or self.child.tail()
        return BarnabasError(f"the Spark query failed: {why}", next_step=f"read {self.child.log}")

    def _listen(self) -> None:
        assert self.child.process.stdout is not None
        for line in self.child.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            self._hear(said)

    def _hear(self, said: dict[str, Any]) -> None:
        kind = said.get("event")
        if kind == "ready":
            self.ready = said
        elif kind == "progress":
            self.batch, self.through, self.batch_ms = said["batch"], said["through"], said["took_ms"]
        elif kind == "again":
            self.say(said["line"])
        elif kind == "answer":
            self.answer = said
        elif kind == "failed":
            self.failure = "\n".join(filter(None, (said["error"], said.get("next_step"))))
