"""Nodes of Apache Kafka in the place of ours: the same settings, the same harms, judged by the same looks."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.processes import listens
from tests.compat.kafka_node import KafkaNode
from tests.damage.matrix.nodes import START_S, Nodes
from tools.peer import SCRIPTS

from barnabas.errors import BarnabasError
from barnabas.model import Uuid
from barnabas.testing import Node
from barnabas.testing.cluster import free_ports

__all__ = ["ApacheNodes"]

_SETTINGS = {
    "log.flush.start.offset.checkpoint.interval.ms": "2000",
    "log.initial.task.delay.ms": "500",
    "log.index.size.max.bytes": "65536",
}
"""What ours does by itself: write checkpoints soon, and no 10 MiB of empty rows in the newest segment's index, of
which harm would hit nothing else."""


class ApacheNodes(Nodes):
    """`with ApacheNodes(folder, 3) as nodes`: combined nodes of Apache Kafka.

    They name no events, so told is a warning or an error that names the log or the file; its event is the class
    that wrote it.  The exception below it counts, too.
    """

    _entry = re.compile(
        r"^\[[\d-]+ [\d:,]+\] (?:WARN|ERROR|FATAL) .*\((?:[\w$]+\.)*([\w$]+)\)(?:\n(?!\[\d).*)*", re.MULTILINE
    )
    _ordinary = re.compile(
        "Error in response for fetch request|Error processing append operation|marked as failed"
        "|Non-monotonic update of high watermark|UNKNOWN_TOPIC"
    )

    def _make(self, folder: Path, settings: Mapping[str, str]) -> Sequence[Node]:
        copies, first = str(self.count), free_ports(2 * self.count)
        given = {
            **{name: value for name, value in settings.items() if not name.startswith("barnabas.")},
            **_SETTINGS,
            "default.replication.factor": copies,
            "offsets.topic.replication.factor": copies,
            "transaction.state.log.replication.factor": copies,
        }
        ports = {
            number: (first + 2 * number - 2, first + 2 * number - 1) for number in range(1, self.count + 1)
        }
        controllers = [controller for _, controller in ports.values()]
        members = [
            KafkaNode(SCRIPTS, folder / str(number), number, own, controllers, **given)
            for number, own in ports.items()
        ]
        voters = ",".join(f"{one.id}@127.0.0.1:{one.controller}:{Uuid.of(1, one.id)}" for one in members)
        for member in members:
            member.format("--initial-controllers", voters)
        return [_ApacheNode(member) for member in members]


class _ApacheNode(Node):
    """A process of Apache Kafka, which is ready when it takes clients."""

    def __init__(self, member: KafkaNode) -> None:
        super().__init__(member.id, str(member.folder), lambda _: ["env", "KAFKA_HEAP=384m", *member.command])
        self._port = member.port
        self.about = {"listeners": [f"PLAINTEXT://127.0.0.1:{member.port}"]}

    def wait_ready(self) -> None:
        deadline = time.monotonic() + START_S
        while not listens(self._port):
            if self.pid is None or time.monotonic() > deadline:
                self.end(signal.SIGKILL)
                raise BarnabasError(f"node {self.number} did not start:\n{self.log()[-1500:]}")
            time.sleep(0.05)
