"""One voter, three, five, and again three: those that remain are not those that began."""

from __future__ import annotations

from barnabas.cli.drill.stage import Stage

__all__ = ["play"]


def play(stage: Stage) -> None:
    stage.alone(1)
    stage.brokers(11)
    for size, newcomers in ((3, (2, 3)), (5, (4, 5))):
        stage.why(f"To {size} voters: each newcomer follows first, then votes.")
        for newcomer in newcomers:
            stage.join(newcomer)
            stage.add(newcomer)
    stage.voters_are(1, 2, 3, 4, 5)
    stage.why("Back to three: 1 and 2 go. A removed voter runs on as an observer until it is stopped.")
    for leaving in (1, 2):
        stage.remove(leaving)
    stage.voters_are(3, 4, 5)
    stage.stop(1, 2)
    stage.flowing()
