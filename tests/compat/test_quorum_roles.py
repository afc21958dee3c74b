"""Nodes change their roles in their files, one restart after the other, while the voters stay as they are."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from tests.server.quorum_processes import Members, barnabas, create_topic, eventually

from barnabas.client.admin.admin import Admin
from barnabas.errors import ErrorCode
from barnabas.model import TopicPartition

pytestmark = pytest.mark.compat


def test_roles_change_in_the_file_and_by_rolling_restarts(tmp_path: Path) -> None:
    """Combined nodes become controllers alone, beside new brokers; their voters stay."""
    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        for member in list(nodes.all.values()):
            member.serving()
            member.kill(signal.SIGTERM)
            member.roles = "controller"
            member.settings["process.roles"] = "controller"
            member.settings["listeners"] = f"CONTROLLER://127.0.0.1:{member.controller}"
            member.write_properties()
            member.start()
            nodes.settled([1, 2, 3])
        broker = nodes.join(7, "broker")
        assert eventually(lambda: create_topic(broker, "flights") == ErrorCode.NONE)
        for id_ in (1, 2, 3):
            barnabas("cluster", "-b", f"127.0.0.1:{broker.port}", "unregister", "--id", str(id_))
        rows = barnabas("cluster", "-b", f"127.0.0.1:{broker.port}", "brokers", "--json")
        assert '"id":7' in rows and '"id":1' not in rows


def test_controllers_become_combined_nodes_and_the_dedicated_broker_goes(tmp_path: Path) -> None:
    """The other way, as the operator's guide has it: roles in the file, rolling restarts, moves, unregister."""
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        old = nodes.join(7, "broker")
        assert eventually(lambda: create_topic(old, "flights") == ErrorCode.NONE)
        last = nodes.leader()
        for member in sorted((nodes[id_] for id_ in (1, 2, 3)), key=lambda member: member is last):
            member.kill(signal.SIGTERM)
            member.roles = "broker,controller"
            listeners = f"PLAINTEXT://127.0.0.1:{member.port},CONTROLLER://127.0.0.1:{member.controller}"
            member.settings.update({"process.roles": member.roles, "listeners": listeners})
            member.write_properties()
            member.start()
            nodes.settled([1, 2, 3])
            member.serving()
        new = f"127.0.0.1:{nodes[1].port}"
        with Admin(new, timeout=20) as admin:
            assert not admin.move({TopicPartition("flights", 0): [1, 2, 3]})
            eventually(lambda: sorted(admin.describe_topic("flights").partitions[0].isr) == [1, 2, 3])
            eventually(lambda: not admin.moves())
        old.kill(signal.SIGTERM)
        barnabas("cluster", "-b", new, "unregister", "--id", "7")
        rows = barnabas("cluster", "-b", new, "brokers", "--json")
        assert '"id":7' not in rows and all(f'"id":{id_}' in rows for id_ in (1, 2, 3))
        assert nodes.settled([1, 2, 3]).leader_id in (1, 2, 3)
