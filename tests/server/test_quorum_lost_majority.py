"""Real controllers: a majority is lost, the quorum is put together by force, the lost ones come back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.server.quorum_processes import Members, barnabas, create_topic, eventually

from barnabas.errors import ErrorCode


@pytest.mark.slow
def test_one_of_three_goes_on_and_the_lost_majority_is_refused_when_it_comes_back(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3).start() as nodes:
        nodes.settled((1, 2, 3))
        for member in nodes.all.values():
            member.serving()
        survivor = next(member for member in nodes.all.values() if member is not nodes.leader())
        lost = [member for member in nodes.all.values() if member is not survivor]
        survivor.kill()
        assert create_topic(nodes.leader(), "unseen", broker=False) == ErrorCode.NONE, "by the two others"
        for member in lost:
            member.kill()
        told = barnabas(
            "quorum", "recover", "--config", str(survivor.properties), "--execute", "--yes", "--json"
        )
        plan = json.loads(told)["plan"]
        assert plan["incarnation"] == 1 and plan["lost"]
        survivor.start()
        row = nodes.settled((survivor.id,))
        assert row.leader_epoch > plan["epoch"]
        assert create_topic(survivor, "after", broker=False) == ErrorCode.NONE

        for member in lost:
            member.start()
        for member in lost:
            eventually(lambda m=member: not m.alive, 30, f"{member} is refused")
            assert "incarnation 0 of the quorum" in member.text()
            assert "--no-initial-controllers" in member.text()
        assert survivor.alive and survivor.describe().leader_epoch == row.leader_epoch, "it was not deposed"
        assert create_topic(survivor, "still", broker=False) == ErrorCode.NONE
