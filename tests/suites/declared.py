"""Which suites there are, what cluster each wants, and which of their tests fail for a reason that we know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent

OF_EVERY_CLUSTER = {"auto.create.topics.enable": "true", "group.min.session.timeout.ms": "100"}


_ENDED = re.compile(r"^(\S+) failed at \S*?(\w+)\(\)$", re.MULTILINE)
_AT_A_BROKEN_CONNECTION = {
    "test_error_cb": "its harness ends it at the first connection that breaks",
    "do_test_low_socket_timeout": "it keeps one connection and refuses itself any other; that node was killed",
}
_NO_FILES = "starts a broker of its own from files that the source distribution lacks"


@dataclass(frozen=True)
class Suite:
    """One script beside this file, and the cluster it is run against."""

    name: str
    """The script is `name`.sh, or `file`; its last line is 'PASSED x FAILED y SKIPPED z'."""
    title: str
    nodes: int
    failure: re.Pattern[str]
    """A line of its output that names a test that failed."""
    first: int = 1
    """node.id of the first node."""
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, str] = field(default_factory=dict)
    """Tests that fail, and why."""
    ends: Mapping[str, str] = field(default_factory=dict)
    """A function of the suite's own in which tests end while nodes are killed, and why it ends them."""
    seconds: int = 1800
    """After which the suite is ended."""
    file: str = ""
    advertised: bool = False
    """Whether its tests ask for an advertised.listeners that is set.  One node only."""

    @property
    def script(self) -> Path:
        return HERE / (self.file or f"{self.name}.sh")

    def reasons(self, output: str) -> dict[str, str]:
        """Why tests that failed did so, by their names: where each ended."""
        found = {name: self.ends.get(place, "") for name, place in _ENDED.findall(output)}
        return {
            name: why
            for name in self.failed(output)
            if (why := next((why for prefix, why in found.items() if name.startswith(prefix)), ""))
        }

    def failed(self, output: str) -> list[str]:
        """The tests that failed, each once, sorted."""
        return sorted({found[1] for found in self.failure.finditer(output)})


SUITES = (
    Suite(
        "kafka-python",
        "kafka-python 3.0.12, `test/integration`",
        nodes=1,
        first=0,
        failure=re.compile(r"^(?:FAILED|ERROR) \S+::(\w+)", re.MULTILINE),
        settings={"num.partitions": "4"},
        advertised=True,
        known={
            "test_create_describe_delete_acls": "wants an authorizer; the answer is `SECURITY_DISABLED`",
            "test_ssl_handshake": _NO_FILES,
            "test_legacy_kafka_client_ssl": _NO_FILES,
        },
    ),
    Suite(
        "franz-go",
        "franz-go 1.22.2, `kgo` without share groups",
        nodes=1,
        failure=re.compile(r"^ *--- FAIL: (\S+)", re.MULTILINE),
    ),
    Suite(
        "librdkafka",
        "librdkafka 2.15.1, `tests/test-runner`",
        nodes=3,
        failure=re.compile(r"^\| *(\S+) +\| +FAILED", re.MULTILINE),
        settings={"num.partitions": "4"},
        ends=_AT_A_BROKEN_CONNECTION,
    ),
    Suite(
        "librdkafka-noautocreate",
        "librdkafka 2.15.1, scenario `noautocreate`",
        nodes=3,
        failure=re.compile(r"^\| *(\S+) +\| +FAILED", re.MULTILINE),
        settings={"num.partitions": "4", "auto.create.topics.enable": "false"},
        environment={"SCENARIO": "noautocreate"},
        file="librdkafka.sh",
    ),
    Suite(
        "apache-clients",
        "Apache Kafka 4.3.1, `clients-integration-tests`",
        nodes=3,
        first=0,
        failure=re.compile(r"^FAILED (\S+)", re.MULTILINE),
        settings={"num.partitions": "1", "offsets.topic.num.partitions": "1"},
    ),
)


def suite(name: str) -> Suite:
    """The suite of that name.  Raises KeyError."""
    return next(found for found in SUITES if found.name == name)
