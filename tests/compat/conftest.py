"""Real processes for the compat suite: our node by its command line, and Apache Kafka where Java is."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.peer import KAFKA_LIBS, RELEASE, SCRIPTS

from barnabas.testing.cluster import free_ports

ROOT = Path(__file__).parents[2]
KAFKA = SCRIPTS
LOOPS = ("uvloop", "asyncio")


def free_port() -> int:
    """One that no dialling socket takes while its node is down."""
    return free_ports(1)


class NodeProcess:
    """`barnabas start server.properties` in a process of its own, which may be killed and started again."""

    def __init__(self, folder: Path, *, loop: str = "uvloop", **settings: str) -> None:
        self.folder = folder
        self.loop = loop
        self.port, self.controller_port = free_port(), free_port()
        self.data = folder / "data"
        self.log = folder / "node.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.lives = 0
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{self.controller_port}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self.data),
            "group.initial.rebalance.delay.ms": "0",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        folder.mkdir(parents=True, exist_ok=True)
        self.properties = folder / "server.properties"
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))

    def set(self, name: str, value: str) -> None:
        """Another line for server.properties; counts from the next start on."""
        self.properties.write_text(self.properties.read_text() + f"{name}={value}\n")

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def barnabas(self, *arguments: str) -> str:
        run = subprocess.run(
            [sys.executable, "-m", "barnabas", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def format(self) -> None:
        cluster = self.barnabas("storage", "random-uuid").strip()
        config = ("-t", cluster, "-c", str(self.properties))
        self.barnabas("storage", "format", "--standalone", *RELEASE, *config)

    def start(self, within: float = 60.0) -> NodeProcess:
        if not (self.data / "meta.properties").exists():
            self.format()
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "barnabas", "start", str(self.properties)],
                stdout=log,
                stderr=log,
                env={**os.environ, "BARNABAS_LOOP": self.loop},
                start_new_session=True,
            )
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            assert self.process.poll() is None, self.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                self.lives += 1
                return self
            except OSError:
                time.sleep(0.01)
        raise AssertionError(f"no listener after {within} s\n{self.log.read_text()}")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def discard(self) -> None:
        """Leave nothing running, whatever the test came to."""
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def stop(self) -> int:
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise AssertionError(f"did not stop within 20 s\n{self.log.read_text()}") from None
        return self.process.returncode


@pytest.fixture(params=LOOPS)
def node(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NodeProcess]:
    """A fresh node on each of the two event loops."""
    running = NodeProcess(tmp_path / "node", loop=request.param)
    request.addfinalizer(running.discard)
    yield running.start()
    assert running.stop() == 0, running.log.read_text()


@pytest.fixture
def one_node(tmp_path: Path) -> Iterator[NodeProcess]:
    """A fresh node on the default loop; the test may kill and start it."""
    running = NodeProcess(tmp_path / "node")
    try:
        yield running.start()
        running.stop()
    finally:
        running.discard()


@pytest.fixture(scope="session")
def apache() -> Path:
    """The folder of scripts that run Apache Kafka's classes; skips where Java 17 or its jars are missing."""
    if not shutil.which("java"):
        pytest.skip("Apache Kafka needs a Java 17 (install one to run this)")
    if not (KAFKA_LIBS / ".complete").exists():
        if not shutil.which("mvn"):
            pytest.skip("Apache Kafka's jars come by mvn (install Maven to run this)")
        subprocess.run([KAFKA / "get-jars.sh"], check=True)
    return KAFKA


def run_kafka_class(
    name: str, *arguments: str, stdin: str | None = None, timeout: float = 120
) -> tuple[int, str]:
    """Run one of Apache Kafka's own tools; returns its exit code and all that it printed."""
    run = subprocess.run(
        [KAFKA / "kafka-class.sh", name, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return run.returncode, run.stdout + run.stderr


def kafka_class(name: str, *arguments: str, stdin: str | None = None, timeout: float = 120) -> str:
    """Run one of Apache Kafka's own tools; returns what it printed."""
    run = subprocess.run(
        [KAFKA / "kafka-class.sh", name, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]
    return run.stdout
