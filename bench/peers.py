"""The two sides of a comparison: a Barnabas node and an Apache Kafka node, started and stopped alike."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tools.peer import KAFKA_LIBS, PEER, SCRIPTS

from bench.processes import PATIENT, listens, own_environment, refuse_taken_port

ROOT = Path(__file__).parents[1]
PAGE_CACHE = str(2**63 - 1)


class Peer:
    """A broker under test: one combined node with one data directory, on ports of its own."""

    name = ""

    def __init__(
        self, folder: Path, port: int, *, fsync: bool, settings: Mapping[str, str] | None = None
    ) -> None:
        """`settings` beside, or instead of, the usual ones."""
        self.folder, self.port, self.fsync = folder, port, fsync
        self.process: subprocess.Popen[bytes] | None = None
        self.started_at = 0.0
        folder.mkdir(parents=True, exist_ok=True)
        self.properties = folder / "server.properties"
        every = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.bootstrap.servers": f"127.0.0.1:{port + 1}",
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{port + 1}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(folder / "data"),
            "offsets.topic.replication.factor": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.flush.interval.messages": "1" if fsync else PAGE_CACHE,
            # deleted files give their memory back at once: pages that are new to a virtual machine cost its
            # host more than either broker's work (2 to 3 CPU seconds per GB, charged to whoever writes)
            "log.segment.delete.delay.ms": "0",
            "max.connections.per.ip": "100000",  # everybody comes from here
            **PATIENT,
            **(settings or {}),
        }
        self.properties.write_text("".join(f"{name}={value}\n" for name, value in every.items()))

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def environment(self) -> dict[str, str]:
        """Of its processes: this one's, with the byte code of what they import."""
        return own_environment()

    def format(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and return at once; `started_at` is the wall clock second before it."""
        if not (self.folder / "data" / "meta.properties").exists():
            self.format()
        refuse_taken_port(self.port)
        with (self.folder / "log").open("ab") as log:
            self.started_at = time.time()
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=self.environment, start_new_session=True
            )

    def wait(self, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                raise SystemExit(
                    f"{self.name} ended while starting; its log: {self.folder / 'log'}\n{self._last_error()}"
                )
            if listens(self.port):
                return
            time.sleep(0.005)
        raise SystemExit(f"{self.name} did not listen within {seconds:.0f} s; its log: {self.folder / 'log'}")

    def _last_error(self) -> str:
        """What its log says of why it ended: the last lines that name an error (else the last lines)."""
        lines = (self.folder / "log").read_text(errors="replace").splitlines()
        errors = [line for line in lines if "Exception" in line or "rror" in line]
        return "\n".join((errors or lines)[-3:])[:600]

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(timeout=60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def wipe(self) -> None:
        """Forget all data (the directory must be formatted again)."""
        self.stop()
        shutil.rmtree(self.folder / "data", ignore_errors=True)


class Barnabas(Peer):
    """Our node, by its command line."""

    name = "Barnabas"

    def format(self) -> None:
        tool = [sys.executable, "-m", "barnabas", "storage"]
        cluster = subprocess.run(
            [*tool, "random-uuid"], capture_output=True, text=True, check=True, env=self.environment
        ).stdout.strip()
        subprocess.run(
            [*tool, "format", "--standalone", "-t", cluster, "-c", str(self.properties)],
            check=True,
            stdout=subprocess.DEVNULL,
            env=self.environment,
        )

    def command(self) -> list[str]:
        return [sys.executable, "-m", "barnabas", "start", str(self.properties)]


class ApacheKafka(Peer):
    """Apache Kafka with the options of its own start script."""

    name = "Apache Kafka"

    def format(self) -> None:
        subprocess.run(
            [
                SCRIPTS / "kafka-class.sh",
                "kafka.tools.StorageTool",
                *("format", "--standalone", "-t", "5L6g3nShT-eMCtK--X86sw", "-c", str(self.properties)),
            ],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def command(self) -> list[str]:
        return [str(SCRIPTS / "broker-class.sh"), str(self.properties)]


def apache_is_here() -> str | None:
    """Why there is no Apache Kafka to compare with, or None when there is (its jars are fetched once)."""
    if not shutil.which("java"):
        return "there is no Java 17 on this machine"
    if (KAFKA_LIBS / ".complete").exists():
        return None
    if not shutil.which("mvn"):
        return "its jars come by mvn, which is not on this machine"
    print(f"fetching {PEER} (once, about 40 s) ...", flush=True)
    if subprocess.run([SCRIPTS / "get-jars.sh"], check=False).returncode:
        return "its jars could not be fetched"
    return None
