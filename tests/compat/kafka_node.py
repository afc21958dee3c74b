"""A node that runs Apache Kafka, managed as one of ours is."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.compat.conftest import kafka_class
from tests.server.quorum_processes import CLUSTER, Member

__all__ = ["KafkaNode"]


class KafkaNode(Member):
    """One node of Apache Kafka, controller and broker, formatted by its own tool."""

    def __init__(
        self,
        apache: Path,
        folder: Path,
        id_: int,
        ports: tuple[int, int],
        known: Iterable[int],
        **settings: str,
    ) -> None:
        super().__init__(folder, id_, ports, known, "broker,controller", **settings)
        self.settings["advertised.listeners"] = self.settings["listeners"]
        self.log = folder / "server.log"
        self.command = [str(apache / "broker-class.sh"), str(self.properties)]
        self.write_properties()

    def format(self, *flags: str, cluster: str = CLUSTER) -> None:
        config = ("-c", str(self.properties))
        kafka_class("kafka.tools.StorageTool", "format", "-t", cluster, *config, *flags)

    def start(self) -> Member:
        with self.log.open("ab") as log:
            environment = {**os.environ, "KAFKA_HEAP": "384m"}
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, env=environment)
        return self
