"""A standalone Spark on this machine: a master and workers, each a process of its own."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.request
from pathlib import Path
from types import TracebackType

from barnabas.pipeline.java import find_java
from barnabas.testing.cluster import free_ports

__all__ = ["Standalone"]

_PATIENCE_S = 60.0


class Standalone:
    """`with Standalone(folder, workers=2) as spark: session(master=spark.master)`; each worker has one core.

    And an address of its own on the loopback: Spark runs a task a second time on another host only.
    """

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.workers = workers
        self.port = free_ports(4 + 2 * workers)
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Standalone:
        try:
            self._start("master", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.port + 1))
            self._wait(lambda page: "Spark Master" in page)
            for number in range(self.workers):
                port = self.port + 4 + 2 * number
                work = self.folder / f"work-{number}"
                self._start(
                    "worker",
                    f"127.0.0.{number + 1}",
                    *("--port", str(port), "--webui-port", str(port + 1), "--cores", "1"),
                    *("--memory", "1500m", "--work-dir", str(work), self.master),
                )
            self._wait(lambda page: page.count("ALIVE") > self.workers)
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all of them; a worker ends its executors."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, role: str, host: str, *words: str) -> None:
        import pyspark

        home = os.path.dirname(pyspark.__file__)
        name = f"org.apache.spark.deploy.{role}.{role.title()}"
        command = [os.path.join(home, "bin", "spark-class"), name, "--host", host, *words]
        environment = {
            **os.environ,
            "JAVA_HOME": find_java().path,
            "SPARK_HOME": home,
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (self.folder / f"{role}-{len(self.processes)}.log").open("wb") as log:
            self.processes.append(subprocess.Popen(command, stdout=log, stderr=log, env=environment))

    def _wait(self, done: object) -> None:
        assert callable(done)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port + 1}/", timeout=5) as page:
                    if done(page.read().decode()):
                        return
            except OSError:
                pass
            if time.monotonic() > deadline:
                logs = "\n".join(log.read_text()[-1500:] for log in sorted(self.folder.glob("*.log")))
                raise TimeoutError(f"no standalone Spark: {logs}")
            time.sleep(0.2)
