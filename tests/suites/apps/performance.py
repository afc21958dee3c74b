"""ProducerPerformance with transactions of 100 ms; its payload is the numbers."""

from __future__ import annotations

from tests.suites.apps import numbers
from tests.suites.apps.java import Program
from tests.suites.apps.stage import Outcome, Stage

TOPIC = "performed"


def run(stage: Stage) -> Outcome:
    stage.create(TOPIC)
    written = int(stage.rate * stage.seconds)
    program = Program(
        stage.folder, "performance", "org.apache.kafka.tools.ProducerPerformance",
        "--topic", TOPIC, "--num-records", str(written), "--throughput", str(stage.rate), "--payload-monotonic",
        "--transactional-id", "performance", "--transaction-duration-ms", "100",
        "--bootstrap-server", stage.bootstrap,
    )  # fmt: skip
    outcome = Outcome()
    try:
        if code := program.start().wait(stage.seconds + numbers.SETTLED_SECONDS):
            outcome.wrong.append(f"it ended with {code}: {program.last_words()}")
    finally:
        program.kill()
    outcome.tallies[TOPIC] = stage.tally(TOPIC, written)
    lines = program.output.read_text().splitlines()
    outcome.seen += [line for line in lines[-1:] if "99.9th" in line]
    return outcome
