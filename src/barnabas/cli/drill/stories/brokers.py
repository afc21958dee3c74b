"""Five brokers in three racks, 100 partitions; two come, one is drained, the active controller dies midway."""

from __future__ import annotations

import json

from barnabas.cli.drill.stage import DrillError, Stage

__all__ = ["play"]

SPREAD = 4
"""Replicas by which brokers may differ: topics that were made meanwhile are placed by chance."""


def play(stage: Stage) -> None:
    stage.form(1, 2, 3)
    stage.brokers(11, 12, 13, 14, 15, racks="abcab")
    stage.type("topics create orders --partitions 97 --replication-factor 3")
    stage.type("brokers list")
    for newcomer, rack in ((16, "c"), (17, "a")):
        stage.node(newcomer, "broker", broker_rack=rack)
        stage.format(newcomer, quiet=True)
    stage.start(16, 17)
    stage.until("all are unfenced", lambda: {16, 17} <= stage.unfenced())
    stage.why("Two came. They get their share; only what that takes is copied.")
    stage.type("brokers add 16 17 --wait")
    stage.why("Broker 11 shall go. The plan is begun, and the active controller dies: its successor goes on.")
    stage.type("brokers drain 11")
    stage.kill(stage.leader())
    stage.type("brokers drain 11 --wait", shows="Broker 11 carries nothing and gets nothing", again=15)
    stage.why("A new topic: nothing of it is on 11.")
    stage.type("topics create later --partitions 12 --replication-factor 3", again=10)
    rows = {row["id"]: row for row in json.loads(stage.type("brokers list --json", quiet=True))["brokers"]}
    stage.type("brokers list")
    counts = [row["replicas"] for id_, row in rows.items() if id_ != 11]
    if rows[11]["replicas"] or max(counts) - min(counts) > SPREAD:
        raise DrillError(f"replicas are not spread evenly, or are on 11: {counts}")
    stage.stop(11)
    stage.type("brokers unregister 11", again=15)
    stage.flowing()
