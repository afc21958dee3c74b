"""`python -m bench.watched FILE start server.properties`: a node that writes down the long steps of its loop.

Every callback that the loop runs is measured in CPU seconds of its thread (on a busy machine wall time says
more about the others).  A step above `LONG` becomes one line of JSON in FILE: its CPU and wall seconds, and where
it spent them, from samples of its stack every few milliseconds of CPU.  It runs asyncio's own loop; uvloop's
steps cannot be watched.
"""

from __future__ import annotations

import asyncio.events
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from types import FrameType
from typing import Any

LONG = 0.005
"""Steps above these CPU seconds are written down."""
SAMPLE = 0.002
FRAMES = 7

_samples: list[str] = []
_collected: list[float] = [0.0, -1, 0.0]
"""Of this step: CPU seconds of the garbage collector, its highest generation, when it began."""


def _sample(_number: int, frame: FrameType | None) -> None:
    names = []
    while frame is not None and len(names) < 60:
        code = frame.f_code
        path = code.co_filename
        if "barnabas" in path:
            room = path.rpartition("barnabas/")[2].removesuffix(".py")
            names.append(f"{room}:{code.co_qualname}")
        frame = frame.f_back
    _samples.append(" < ".join(names[:FRAMES]))


def _collecting(phase: str, info: dict[str, int]) -> None:
    if phase == "start":
        _collected[2] = time.thread_time()
        return
    _collected[0] += time.thread_time() - _collected[2]
    _collected[1] = max(_collected[1], info["generation"])


def watch(path: str) -> None:
    """From now on every long step of every loop in this process is written to `path`."""
    out = open(path, "a", buffering=1, encoding="utf-8")  # noqa: SIM115  as long as the process lives
    run = asyncio.events.Handle._run

    def watched(self: Any) -> None:
        _samples.clear()
        _collected[:2] = 0.0, -1
        cpu, wall = time.thread_time(), time.monotonic()
        what = repr(getattr(self, "_callback", ""))[:120]
        run(self)
        took = time.thread_time() - cpu
        if took > LONG:
            where = Counter(_samples).most_common(4)
            line = {
                "at": round(time.monotonic(), 3),
                "cpu_ms": round(took * 1000, 1),
                "wall_ms": round((time.monotonic() - wall) * 1000, 1),
                "gc_ms": round(_collected[0] * 1000, 1),
                "gc": _collected[1],
                "what": what,
                "where": [[count, frames] for frames, count in where],
            }
            out.write(json.dumps(line) + "\n")

    gc.callbacks.append(_collecting)
    asyncio.events.Handle._run = watched  # type: ignore[method-assign]
    signal.signal(signal.SIGPROF, _sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE, SAMPLE)


def main() -> int:
    from barnabas.cli.main import main as barnabas

    os.environ["BARNABAS_LOOP"] = "asyncio"
    watch(sys.argv[1])
    return barnabas(sys.argv[2:])


if __name__ == "__main__":
    sys.exit(main())
