"""A bit of a broker's disk flips while it runs, and again while all are killed: found, told, healed."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage
from barnabas.cli.drill.traffic import TOPIC

__all__ = ["play"]

BROKERS = (11, 12, 13)
LOG = f"{TOPIC}-0"
AGAIN_S = 60
"""For so long a reader may be refused.  Another replica leads within seconds, on a machine that is not busy."""


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(*BROKERS, min_insync_replicas="2", log_roll_ms="4000")
    rotten = stage.leader_of(TOPIC, 0)
    stage.until("a segment is sealed", lambda: len(stage.segments(rotten, LOG)) > 1)
    stage.why(
        f"A bit flips on the disk of broker {rotten}, which leads {LOG}. No program did it, so none knows."
    )
    offset = stage.flip(rotten, LOG, sealed=True)
    stage.type(f"log verify n{rotten}/{LOG}", code=6)
    stage.why("Within a week the broker would read its segments itself. Whoever reads there again is sooner.")
    stage.type(f"consume {TOPIC} --partition 0 --offset {offset} --max 3", again=AGAIN_S)
    stage.says(rotten, "log.damaged", LOG)
    stage.why("It told the controller: another replica leads, and this one is fetched again from there.")
    stage.says(rotten, "replica.whole-again", LOG)
    _whole_again(stage, rotten)
    stage.why(
        "All are killed, and a bit flips in the newest segment: that might be the end that a kill tore."
    )
    rotten = stage.leader_of(TOPIC, 0)
    stage.kill(*BROKERS)
    stage.flip(rotten, LOG, sealed=False)
    stage.why("It must not lead with what is left there: the others have the records that were acknowledged.")
    stage.start(*BROKERS)
    stage.says(rotten, "log.", LOG)
    _whole_again(stage, rotten)


def _whole_again(stage: Stage, rotten: int) -> None:
    stage.until("all are in sync", stage.whole)
    stage.type(f"log verify n{rotten}/{LOG}")
    stage.flowing()
