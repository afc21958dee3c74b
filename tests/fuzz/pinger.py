"""A client that behaves, in a process of its own: Metadata of one topic, again and again.

`python -m tests.fuzz.pinger HOST PORT TOPIC FILE` appends a line for each answer: when it was asked
(monotonic seconds), how long it took (ms), and how many brokers the answer named.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import NamedTuple

from barnabas.client.blocking import BlockingConnection
from barnabas.wire.schemas.cluster import MetadataRequest, MetadataRequestTopic

__all__ = ["Ping", "pings"]

EVERY_S = 0.005


class Ping(NamedTuple):
    """One answer: when it was asked for (monotonic seconds), milliseconds, brokers it named."""

    at: float
    ms: float
    brokers: int


def pings(file: Path) -> list[Ping]:
    """What was written so far."""
    lines = file.read_text().splitlines() if file.exists() else []
    return [Ping(float(at), float(ms), int(brokers)) for at, ms, brokers in map(str.split, lines[:-1])]


def main(host: str, port: str, topic: str, file: str) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with BlockingConnection(host, int(port)) as connection, open(file, "w", encoding="ascii") as out:
        while True:
            began = time.monotonic()
            answer = connection.request(request)
            took = (time.monotonic() - began) * 1000
            out.write(f"{began:.6f} {took:.3f} {len(answer.brokers)}\n")
            out.flush()
            time.sleep(EVERY_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
