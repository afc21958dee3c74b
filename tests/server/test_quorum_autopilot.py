"""The autopilot of real processes: a killed voter is replaced by a standby, and the history says who did it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.server.quorum_processes import CLUSTER, Members, barnabas, eventually

from barnabas.config import Config
from barnabas.model import Uuid
from barnabas.raft.messages import Supervise
from barnabas.server.kraft.settings import QuorumSettings

SETTINGS = {
    "barnabas.quorum.autopilot": "on",
    "barnabas.quorum.autopilot.stability.ms": "1000",
    "barnabas.quorum.autopilot.dead.ms": "3000",
}


def order_of(**settings: str) -> Supervise | None:
    """What the autopilot is told with these settings."""
    config = Config.load({"node.id": "1", **settings})
    directory = Uuid.of(1, 1)
    return QuorumSettings.of(config, cluster_id=CLUSTER, directory_id=directory, endpoints=()).autopilot


def test_it_is_off_unless_it_is_switched_on() -> None:
    assert order_of() is None
    order = order_of(**SETTINGS)
    assert order is not None and not order.dry_run
    assert (order.size, order.stability, order.dead) == (3, 1.0, 3.0)
    dry = order_of(**{"barnabas.quorum.autopilot": "dry-run"})
    assert dry is not None and dry.dry_run


@pytest.mark.slow
def test_a_killed_voter_is_replaced_by_a_standby(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3, "controller", **SETTINGS) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        standby = nodes.join(4, **SETTINGS)
        nodes.observed(standby)
        leader = nodes.leader()
        dead = next(member for member in nodes.all.values() if member not in (leader, standby))
        dead.kill()
        nodes.settled(sorted({1, 2, 3, 4} - {dead.id}))

        at = f"127.0.0.1:{nodes.leader().controller}"

        def told() -> list[dict[str, str]]:
            history = json.loads(barnabas("quorum", "-C", at, "history", "--json"))["history"]
            return [line for line in history if line["by"] == "the autopilot"]

        [line] = eventually(told, what="a line of the history")
        assert line["what"].startswith(f"replace {dead.id}-") and f"by {standby.id}-" in line["what"]

        dead.start()  # it comes back as an observer, and stays one
        nodes.observed(dead)
        nodes.settled(sorted({1, 2, 3, 4} - {dead.id}))
