"""Kafka Streams with exactly_once_v2: it copies and counts, is killed once and restarted once."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress
from typing import Any

from tests.suites.apps import numbers
from tests.suites.apps.java import STOPPED, Program
from tests.suites.apps.numbers import Tally
from tests.suites.apps.stage import Outcome, Stage

KEYS = 100
SHORT_SESSION_MS, DEFAULT_SESSION_MS = 10_000, 45_000
"""With the default nobody misses the application that was killed while coordinators live less than 45 s: a new one
gives all members their time again, as with Apache Kafka."""


class Progress:
    """How long nothing was added to a topic, at the longest."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = 4) -> None:
        from confluent_kafka import Consumer, TopicPartition

        self._places = [TopicPartition(topic, partition) for partition in range(partitions)]
        self._client: Any = Consumer({"bootstrap.servers": bootstrap, "group.id": "watch", "log_level": 0})
        self._ends = [0] * partitions
        self._since = time.monotonic()
        self.longest = 0.0

    def look(self) -> None:
        """Ask each leader once; one that is away is not waited for."""
        from confluent_kafka import KafkaException

        before = sum(self._ends)
        for place in self._places:
            with suppress(KafkaException):
                self._ends[place.partition] = self._client.get_watermark_offsets(place, timeout=0.5)[1]
        now = time.monotonic()
        if sum(self._ends) > before:
            self._since = now
        self.longest = max(self.longest, now - self._since)

    def close(self) -> None:
        self._client.close()


def run(stage: Stage, session_ms: int = SHORT_SESSION_MS) -> Outcome:
    stage.create("numbers", "copied", "counted")
    app = Program(
        stage.folder,
        "streams",
        "CopyAndCount",
        stage.bootstrap,
        str(stage.folder / "state"),
        str(session_ms),
        heap="320m",
    )
    outcome = Outcome()
    progress = Progress(stage.bootstrap, "copied")
    ends = iter((0.35, 0.7, 2.0))  # the share of the time at which it is killed, then stopped
    end = next(ends)
    try:
        app.start()
        with numbers.to_topic(stage.bootstrap, "numbers", stage.rate) as writing:
            for passed in stage.beats():
                progress.look()
                if passed > end:
                    if app.lives == 1:
                        app.kill()
                    elif (code := app.end()) != STOPPED:
                        outcome.seen.append(f"its clean stop ended with {code}")
                    app.start()
                    end = next(ends)
                elif not app.runs:
                    outcome.wrong.append(f"it ended with {app.code}: {app.last_words()}")
                    app.start()
            written = writing.stop()
        stage.calm()
        progress.close()
        numbers.settled(lambda: stage.tally("copied", written))
        numbers.settled(lambda: counts(stage, written))
        app.end()
    finally:
        app.kill()
    outcome.tallies = {"copied": stage.tally("copied", written), "counted": counts(stage, written)}
    printed = app.output.read_text()
    outcome.seen.append(
        f"{app.lives} lives, one ended by kill -9, {printed.count('uncaught')} threads replaced, "
        f"at the longest {progress.longest:.0f} s without a copy"
    )
    return outcome


def counts(stage: Stage, written: int) -> Tally:
    """The last count of each key, as if the numbers of a key were counted one by one."""
    last: Counter[int] = Counter()
    for _, key, value in numbers.committed(stage.bootstrap, "counted"):
        last[int(key)] = int(value)
    right = {key: len(range(key, written, KEYS)) for key in range(KEYS)}
    lost = sum(max(0, right[key] - last[key]) for key in right)
    twice = sum(max(0, last[key] - right[key]) for key in right)
    return Tally(written, lost, twice, strange=len(set(last) - set(right)))
