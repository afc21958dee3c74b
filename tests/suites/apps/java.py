"""Apache Kafka's programs as child processes: their jars from Maven Central, our one Java file, start and end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

VERSION = os.environ.get("APPS_VERSION", "4.3.1")
"""The newest release of which all these programs are served by the registry."""
LOG4J = "2.25.4"
CACHE = Path(os.environ.get("SUITES_WORK", Path.home() / ".cache" / "kafka-suites")) / f"apps-{VERSION}"
SOURCES = Path(__file__).parent.parent / "java"
LOGGING = Path(__file__).parents[3] / "tools" / "kafka" / "log4j2.properties"
STOPPED = 143
"""The exit code of a JVM after a clean stop by SIGTERM."""
ARTIFACTS = ("kafka-tools", "kafka-streams", "connect-runtime", "connect-file")


class JavaUnavailableError(Exception):
    """Java, Maven or the jars are missing; the text says which."""


def prepare() -> None:
    """Fetch the jars and compile our application, once.  Raises JavaUnavailableError."""
    libs, classes = CACHE / "libs", CACHE / "classes"
    if not shutil.which("javac"):
        raise JavaUnavailableError("needs a JDK 17")
    if not (CACHE / ".fetched").exists():
        if not shutil.which("mvn"):
            raise JavaUnavailableError("the jars come by Maven")
        CACHE.mkdir(parents=True, exist_ok=True)
        (CACHE / "pom.xml").write_text(_pom())
        _run("mvn", "-q", "-B", "-f", str(CACHE / "pom.xml"), "dependency:copy-dependencies",
             f"-DoutputDirectory={libs}", "-DincludeScope=runtime")  # fmt: skip
        (CACHE / ".fetched").touch()
    source = SOURCES / "CopyAndCount.java"
    compiled = classes / "CopyAndCount.class"
    if not compiled.exists() or compiled.stat().st_mtime < source.stat().st_mtime:
        _run("javac", "-nowarn", "-cp", f"{libs}/*", "-d", str(classes), str(source))


def _pom() -> str:
    def dependency(group: str, artifact: str, version: str) -> str:
        return (
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
        )

    wanted = [dependency("org.apache.kafka", artifact, VERSION) for artifact in ARTIFACTS]
    wanted += [
        dependency("org.apache.logging.log4j", artifact, LOG4J)
        for artifact in ("log4j-slf4j-impl", "log4j-1.2-api")
    ]
    return (
        "<project><modelVersion>4.0.0</modelVersion><groupId>apps</groupId><artifactId>apps</artifactId>"
        f"<version>1</version><dependencies>{''.join(wanted)}</dependencies></project>"
    )


def _run(*words: str) -> None:
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise JavaUnavailableError((ran.stdout + ran.stderr)[-600:])


def command(main: str, *arguments: str, heap: str = "200m") -> list[str]:
    """The words that run a class, frugal with memory and threads of the compiler."""
    return [
        "java", f"-Xmx{heap}", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true",
        f"-Dlog4j2.configurationFile=file:{LOGGING}", "-Dkafka.lab.level=" + os.environ.get("KAFKA_LOG", "warn"),
        "-cp", f"{CACHE}/classes:{CACHE}/libs/*", main, *arguments,
    ]  # fmt: skip


class Program:
    """One of them: its output goes to NAME.out, its log to NAME.err in the folder, over all its lives."""

    def __init__(self, folder: Path, name: str, main: str, *arguments: str, heap: str = "200m") -> None:
        self.name = name
        self.output, self.log = folder / f"{name}.out", folder / f"{name}.err"
        self.lives = 0
        self._command = command(main, *arguments, heap=heap)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Program:
        with self.output.open("ab") as output, self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=log)
        self.lives += 1
        return self

    @property
    def code(self) -> int | None:
        """None while it runs, then its exit code."""
        return None if self._process is None else self._process.poll()

    @property
    def runs(self) -> bool:
        return self._process is not None and self.code is None

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def wait(self, seconds: float) -> int:
        """Its exit code.  Raises AssertionError if it still runs then."""
        assert self._process is not None
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} still runs after {seconds:g} s\n{self.last_words()}") from None

    def end(self, seconds: float = 90.0) -> int:
        """A clean stop (SIGTERM); returns its exit code."""
        if self._process is not None and self.runs:
            self._process.send_signal(signal.SIGTERM)
        return self.wait(seconds)

    def last_words(self) -> str:
        """The end of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-12:])[-2000:]
