"""A move of three voters takes six steps; after each of them in turn it is cancelled, and the set stays."""

from __future__ import annotations

import time

from barnabas.cli.drill.stage import WITHIN_S, DrillError, Stage
from barnabas.client.admin.admin import Admin

__all__ = ["play"]

STEPS = 6
STABLE_S = 0.5
"""For so long the set is watched after it was cancelled."""


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11)
    stage.join_all(4, 5, 6)
    begin, end = (1, 2, 3), (4, 5, 6)
    for steps in range(STEPS):
        stage.why(f"A move to {_named(end)} is cancelled as soon as {steps} of its {STEPS} steps are taken.")
        _move_and_cancel(stage, begin, end, steps)
        stage.type("quorum reassign", shows="No change of controllers is under way", again=5)
        _stays(stage)
        stage.why("The same target again, and the move goes on to the end.")
        stage.type(f"quorum reassign --target {_named(end)}")
        stage.voters_are(*end)
        stage.type("quorum reassign", shows="No change of controllers is under way", again=5, quiet=True)
        begin, end = end, begin
    stage.flowing()


def _move_and_cancel(stage: Stage, begin: tuple[int, ...], end: tuple[int, ...], steps: int) -> None:
    """By the client, as commands take longer than the whole move."""
    with Admin(stage.bootstrap, timeout=WITHIN_S) as admin:
        admin.reassign_controllers(end)
        until = time.monotonic() + WITHIN_S
        while _taken(admin, begin) < steps:
            if time.monotonic() > until:
                raise DrillError(f"not within {WITHIN_S:g} s: {steps} steps")
        admin.reassign_controllers(None)


def _taken(admin: Admin, begin: tuple[int, ...]) -> int:
    """Steps taken from that set: who came, and who went."""
    now = {voter.id for voter in admin.quorum().voters}
    return len(now - set(begin)) + len(set(begin) - now)


def _named(ids: tuple[int, ...]) -> str:
    return ",".join(map(str, ids))


def _stays(stage: Stage) -> None:
    """Every controller names the same voters, and goes on naming them."""
    named: set[tuple[int, ...]] = set()
    until = time.monotonic() + STABLE_S
    while time.monotonic() < until:
        for node in (node for node in stage.nodes.values() if node.serves):
            with Admin(f"127.0.0.1:{node.controller_port}", timeout=5.0) as admin:
                named.add(tuple(sorted(voter.id for voter in admin.quorum().voters)))
    if len(named) != 1:
        raise DrillError(
            f"after the move was cancelled the nodes name {' and '.join(map(str, sorted(named)))}"
        )
    stage.why(f"Every node names the voters {_named(named.pop())}, and goes on naming them.")
