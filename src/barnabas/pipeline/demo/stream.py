"""The Spark process as the demo sees it: started, listened to, killed, told where the stream ends."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from typing import Any

from barnabas.errors import BarnabasError
from barnabas.interpreter import python_words
from barnabas.pipeline.demo.children import Child
from barnabas.pipeline.offsets import Positions

__all__ = ["Stream"]


class Stream:
    """`jobs.flights_query` as a child process.  Numbers may be read at any time from another thread."""

    def __init__(self, bootstrap: str, topic: str, out: str, work: str, say: Callable[[str], None]) -> None:
        module = "barnabas.pipeline.jobs.flights_query"
        named = {"bootstrap": bootstrap, "topic": topic, "out": out, "work": work}
        words = [word for name, value in named.items() for word in (f"--{name}", value)]
        self.say = say
        """Called from the listening thread."""
        self.ready: dict[str, Any] = {}
        self.done = False
        self.failure: str | None = None
        self.through = 0
        self.batch = -1
        self.batch_ms = 0
        self.state = "starting"
        """In words, for the screen."""
        self._killed = False
        self._command = python_words(module, *words)
        self._log = os.path.join(work, "spark.log")
        self.start()

    def __repr__(self) -> str:
        return f"<Stream {self.state} batch={self.batch} through={self.through}>"

    def start(self) -> None:
        """Start the process, at first or after `kill`: it goes on from its checkpoint."""
        self._killed = False
        self.ready, self.state = {}, "starting"
        self.child = Child("spark", self._command, self._log, talks=True)
        self._listener = threading.Thread(
            target=self._listen, args=(self.child,), name="spark-says", daemon=True
        )
        self._listener.start()

    def kill(self) -> int:
        """kill -9 for the driver, its Java and all Python workers.  Returns the driver's process id."""
        self._killed = True
        self.child.kill()
        self._listener.join()
        self.state = "KILLED (-9)"
        return self.child.pid

    def finish_at(self, ends: Positions) -> None:
        """Say where the stream ends; it says that it is done when it was read up to there."""
        assert self.child.process.stdin is not None
        try:
            self.child.process.stdin.write(ends.text().encode() + b"\n")
            self.child.process.stdin.flush()
        except OSError as error:
            raise self.died() from error

    def check(self) -> None:
        """Raises BarnabasError when the process failed or is gone although nobody killed it."""
        gone = not (self.child.running or self.done or self._killed or self._listener.is_alive())
        if self.failure is not None or gone:
            raise self.died()

    def died(self) -> BarnabasError:
        """What to raise when the process is gone."""
        why = self.failure or self.child.tail()
        return BarnabasError(f"the Spark query failed: {why}", next_step=f"read {self.child.log}")

    def _listen(self, child: Child) -> None:
        assert child.process.stdout is not None
        for line in child.process.stdout:
            try:
                said = json.loads(line)
            except ValueError:
                continue
            self._hear(said)

    def _hear(self, said: dict[str, Any]) -> None:
        kind = said.get("event")
        if kind == "ready":
            self.ready, self.state = said, "up"
        elif kind == "progress":
            self.batch, self.through, self.batch_ms = said["batch"], said["through"], said["took_ms"]
            self.state = f"batch {self.batch}, {self.batch_ms / 1000:.1f} s"
        elif kind == "again":
            self.say(said["line"])
        elif kind == "done":
            self.done = True
        elif kind == "failed" and not self._killed:
            self.failure = "\n".join(filter(None, (said["error"], said.get("next_step"))))
