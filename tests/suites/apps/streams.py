"""Kafka Streams with exactly_once_v2: it copies and counts, is killed once and restarted once."""

from __future__ import annotations

from collections import Counter

from tests.suites.apps import numbers
from tests.suites.apps.java import STOPPED, Program
from tests.suites.apps.numbers import Tally
from tests.suites.apps.stage import Outcome, Stage

KEYS = 100
SESSION_MS = "10000"
"""With the default of 45 s no coordinator lives long enough, where one node after the other is killed, to
miss the application that was killed: each new one gives all members their time again, as with Apache Kafka."""


def run(stage: Stage) -> Outcome:
    stage.create("numbers", "copied", "counted")
    app = Program(
        stage.folder,
        "streams",
        "CopyAndCount",
        stage.bootstrap,
        str(stage.folder / "state"),
        SESSION_MS,
        heap="320m",
    )
    outcome = Outcome()
    ends = iter((0.35, 0.7, 2.0))  # the share of the time at which it is killed, then stopped
    end = next(ends)
    try:
        app.start()
        with numbers.to_topic(stage.bootstrap, "numbers", stage.rate) as writing:
            for passed in stage.beats():
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
        numbers.settled(lambda: stage.tally("copied", written))
        numbers.settled(lambda: counts(stage, written))
        app.end()
    finally:
        app.kill()
    outcome.tallies = {"copied": stage.tally("copied", written), "counted": counts(stage, written)}
    printed = app.output.read_text()
    outcome.seen.append(
        f"{app.lives} lives, one ended by kill -9, {printed.count('uncaught')} threads replaced"
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
