"""`barnabas quorum set-endpoint`: controllers of which nobody knows where the others are any more."""

from __future__ import annotations

import json
from pathlib import Path

from tests.server.quorum_processes import Members, barnabas, eventually, free_ports


def test_controllers_that_nobody_knows_are_named_with_the_command_that_helps(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        for member in nodes.all.values():
            member.kill()
        (nowhere, *ports) = free_ports(4)
        for member, port in zip(nodes.all.values(), ports, strict=True):
            member.controller = port
            member.settings["listeners"] = f"CONTROLLER://127.0.0.1:{port}"
            member.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{nowhere}"
            member.write_properties()
        for node in (1, 2):
            nodes[node].start()
        one = f"127.0.0.1:{ports[0]}"
        eventually(lambda: "set-endpoint --node ID" in nodes[1].text())
        known = json.loads(barnabas("quorum", "-C", one, "set-endpoint", "--json"))["controllers"]
        assert [row["id"] for row in known] == [1, 2, 3]

        # online, at one of two: the other one hears of it
        at = f"127.0.0.1:{ports[1]}"
        said = barnabas("quorum", "-C", one, "set-endpoint", "--node", "2", "--endpoint", at)
        assert said.startswith(f"Controller 2 is looked for at {at} now.\n") and at in said
        nodes.leader()

        # offline, in the directory of the third
        config = str(nodes[3].properties)
        said = barnabas("quorum", "set-endpoint", "--config", config, "--node", "1", "--endpoint", one)
        assert f"CONTROLLER://{one}" in said
        nodes[3].start()
        nodes.settled([1, 2, 3])


def test_what_cannot_be_is_refused_with_a_next_step(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 1, "controller", how="standalone") as nodes:
        nodes.start()
        nodes.leader()
        one = f"127.0.0.1:{nodes[1].controller}"
        config = str(nodes[1].properties)
        for code, *words in (
            (2, "-C", one, "set-endpoint", "--node", "2"),
            (2, "-C", one, "set-endpoint", "--node", "2", "--endpoint", "nowhere"),
            (2, "set-endpoint", "--node", "2", "--endpoint", "h:1"),
            (1, "-C", one, "set-endpoint", "--node", "2", "--endpoint", "h:1"),  # no such controller
            (1, "-C", one, "set-endpoint", "--node", "1", "--endpoint", "h:1"),  # it knows better
            (1, "set-endpoint", "--config", config, "--node", "1", "--endpoint", "h:1"),  # it runs
        ):
            barnabas("quorum", *words, code=code)
