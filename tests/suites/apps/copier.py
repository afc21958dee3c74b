"""TransactionalMessageCopier: two share a group, abort one transaction in three, and are killed themselves."""

from __future__ import annotations

import time

from tests.suites.apps import numbers
from tests.suites.apps.java import Program
from tests.suites.apps.stage import Outcome, Stage

MAIN = "org.apache.kafka.tools.TransactionalMessageCopier"
GROUP, SOURCE, TARGET = "copiers", "numbers", "copied"
KILL_SECONDS = 25.0  # between kill -9 of one copier and of the other
TRANSACTION_SIZE = "50"


def copier(stage: Stage, name: str) -> Program:
    return Program(
        stage.folder, name, MAIN,
        "--broker-list", stage.bootstrap, "--input-topic", SOURCE, "--input-partition", "-1",
        "--output-topic", TARGET, "--consumer-group", GROUP, "--transactional-id", name,
        "--transaction-size", TRANSACTION_SIZE, "--transaction-timeout", "10000",
        "--enable-random-aborts", "--group-mode", "--use-group-metadata",
    )  # fmt: skip


def run(stage: Stage) -> Outcome:
    """A copier ends when it has copied what was there at its last assignment; it is then started anew."""
    stage.create(SOURCE, TARGET)
    copiers = [copier(stage, "copier-1"), copier(stage, "copier-2")]
    outcome = Outcome()
    kills, killed_at = 0, time.monotonic()
    try:
        with numbers.to_topic(stage.bootstrap, SOURCE, stage.rate) as writing:
            for _ in stage.beats():
                keep_up(copiers, outcome)
                if time.monotonic() - killed_at > KILL_SECONDS:
                    copiers[kills % 2].kill()
                    copiers[kills % 2].start()
                    kills, killed_at = kills + 1, time.monotonic()
            written = writing.stop()
        stage.calm()
        deadline = time.monotonic() + numbers.SETTLED_SECONDS
        while not numbers.group_has_read(stage.bootstrap, GROUP, SOURCE):
            keep_up(copiers, outcome)
            if time.monotonic() > deadline:
                outcome.wrong.append("the copiers did not come to the end")
                break
            time.sleep(1.0)
    finally:
        for each in copiers:
            each.kill()
    found = numbers.committed(stage.bootstrap, TARGET)
    outcome.tallies[TARGET] = numbers.tally([value for _, _, value in found], written)
    if disorder := out_of_order(found):
        outcome.wrong.append(f"{disorder} numbers are not in the order of their partition")
    outcome.seen.append(
        f"{sum(each.lives for each in copiers)} lives of two copiers, {kills} ended by kill -9"
    )
    return outcome


def keep_up(copiers: list[Program], outcome: Outcome) -> None:
    """Start those that have ended; an end with an error is wrong."""
    for each in copiers:
        if not each.runs:
            if each.code:
                outcome.wrong.append(f"{each.name} ended with {each.code}: {each.last_words()}")
            each.start()


def out_of_order(found: list[tuple[int, bytes, bytes]]) -> int:
    """How many numbers follow a higher one of their partition."""
    highest: dict[int, int] = {}
    wrong = 0
    for partition, _, value in found:
        wrong += int(value) <= highest.get(partition, -1)
        highest[partition] = max(int(value), highest.get(partition, -1))
    return wrong
