"""Run one command while holding the lock that every heavy target takes: `heavy.py COMMAND ARG...`.

Benchmarks, simulations and test suites that run at the same time on one machine measure each other.
The lock is per user and machine; the one who waits is told for whom.
"""

from __future__ import annotations

import fcntl
import getpass
import os
import subprocess
import sys
import tempfile


def main() -> int:
    path = os.path.join(tempfile.gettempdir(), f"barnabas-heavy-{getpass.getuser()}.lock")
    with open(path, "a+", encoding="utf-8") as lock:
        if os.environ.get("BARNABAS_HEAVY_HELD") != "1":
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                lock.seek(0)
                print(f"waiting for another heavy run: {lock.read().strip() or 'unknown'}", flush=True)
                fcntl.flock(lock, fcntl.LOCK_EX)
        lock.truncate(0)
        lock.write(f"pid {os.getpid()}: {' '.join(sys.argv[1:])}\n")
        lock.flush()
        return subprocess.call(sys.argv[1:], env={**os.environ, "BARNABAS_HEAVY_HELD": "1"})


if __name__ == "__main__":
    sys.exit(main())
