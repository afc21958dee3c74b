"""VerifiableProducer writes the numbers, VerifiableConsumer reads them; both print what they saw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.suites.apps import numbers
from tests.suites.apps.java import Program
from tests.suites.apps.numbers import Tally
from tests.suites.apps.stage import Outcome, Stage

TOPIC, GROUP = "verified", "verifiers"
TOOLS = "org.apache.kafka.tools."


def run(stage: Stage) -> Outcome:
    stage.create(TOPIC)
    settings = stage.folder / "producer.properties"
    # The tool's own default is retries=0: it would give up what the first kill interrupts.
    settings.write_text("retries=2147483647\nenable.idempotence=true\n")
    of_both = ("--bootstrap-server", stage.bootstrap, "--topic", TOPIC)
    producer = Program(
        stage.folder, "producer", TOOLS + "VerifiableProducer", *of_both,
        "--throughput", str(stage.rate), "--command-config", str(settings),
    )  # fmt: skip
    consumer = Program(
        stage.folder, "consumer", TOOLS + "VerifiableConsumer", *of_both,
        "--group-id", GROUP, "--group-protocol", "consumer", "--verbose", "--reset-policy", "earliest",
    )  # fmt: skip
    outcome = Outcome()
    try:
        consumer.start()
        producer.start()
        for _ in stage.beats():
            for each in (producer, consumer):
                if not each.runs:
                    raise AssertionError(f"{each.name} ended with {each.code}: {each.last_words()}")
        producer.end()
        sent = list(events(producer.output))
        written = sum(event["name"] == "producer_send_success" for event in sent)
        failed = [event for event in sent if event["name"] == "producer_send_error"]
        if failed:
            outcome.wrong.append(f"{len(failed)} records given up: {failed[0]}")
        stage.calm()
        numbers.settled(lambda: consumed(consumer, written))
        consumer.end()
    finally:
        producer.kill()
        consumer.kill()
    outcome.tallies = {TOPIC: stage.tally(TOPIC, written), "consumer": consumed(consumer, written)}
    commits = [event for event in events(consumer.output) if event["name"] == "offsets_committed"]
    refused = sum(not event["success"] for event in commits)
    outcome.seen.append(f"{len(commits)} commits of offsets, {refused} refused")
    return outcome


def consumed(consumer: Program, written: int) -> Tally:
    """How often each number came to the consumer."""
    came = (event for event in events(consumer.output) if event["name"] == "record_data")
    return numbers.tally((event["value"].encode() for event in came), written)


def events(path: Path) -> Iterator[dict[str, Any]]:
    """What the tool printed: a document a line; the last line may not be whole yet."""
    with path.open() as file:
        for line in file:
            if line.startswith("{") and line.endswith("}\n"):
                yield json.loads(line)
