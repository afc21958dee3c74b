"""An operator formats a known node with --standalone, under the id of a cluster that lives."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.quorum_processes import CLUSTER, Member, Members, create_topic, eventually, free_ports

from barnabas.errors import ErrorCode

pytestmark = pytest.mark.long


def typed(command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """A command line, typed into a shell as it was printed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == code, f"{command}: {run.returncode}\n{run.stdout}{run.stderr}"
    return run


def commands(text: str) -> list[str]:
    """What a message says between backticks."""
    return re.findall(r"`(barnabas [^`]+)`", text)


def advice(member: Member) -> str:
    """What the node says that starts on a directory which is not formatted."""
    run = typed(f"barnabas start {shlex.quote(str(member.properties))}", 1)
    assert "is not formatted" in run.stderr and "Traceback" not in run.stderr
    return run.stderr


def newcomer(folder: Path, id_: int, members: Members, roles: str = "controller", **settings: str) -> Member:
    pair = free_ports(2)
    known = [member.controller for member in members.all.values()]
    member = Member(folder / f"n {id_}", id_, (pair[0], pair[1]), known, roles, **settings)
    members.all[id_] = member
    return member


def emptied(member: Member) -> None:
    if member.alive:
        member.kill()
    shutil.rmtree(member.data)


# ------------------------------------------------------------------ what is printed is what to type


def test_the_first_node_is_told_how_to_begin_and_the_others_how_to_join(tmp_path: Path) -> None:
    with Members(tmp_path) as nodes:
        first = newcomer(tmp_path, 1, nodes, "broker,controller")
        first.settings["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{first.controller}"
        first.write_properties()
        (begin,) = commands(advice(first))
        typed(begin)
        first.start()
        nodes.settled([1])

        joiner = newcomer(tmp_path, 2, nodes)
        form, add = commands(advice(joiner))
        typed(form)
        joiner.start()
        nodes.observed(joiner)
        typed(add)
        nodes.settled([1, 2])

        broker = newcomer(tmp_path, 3, nodes, "broker")
        (form,) = commands(advice(broker))
        typed(form)
        broker.start().serving()


def test_a_voter_of_a_fixed_set_is_told_how_to_begin_and_the_others_the_same_cluster_id(
    tmp_path: Path,
) -> None:
    with Members.formed(tmp_path, 3, "controller", "static") as nodes:
        for member in nodes.all.values():
            shutil.rmtree(member.data)
        (begin,) = commands(advice(nodes[1]))
        typed(begin)
        meta = (nodes[1].data / "meta.properties").read_text()
        cluster = re.search(r"cluster\.id=(\S+)", meta)
        assert cluster is not None
        nodes[2].format(cluster=cluster[1])
        nodes[1].start()
        nodes[2].start()
        nodes.leader()
        (form,) = commands(advice(nodes[3]))
        typed(form)
        nodes[3].start()
        nodes.settled([1, 2, 3])


# ------------------------------------------------------------------ the three guards


@pytest.fixture
def trio(tmp_path: Path) -> Members:
    nodes = Members.formed(tmp_path, 3)
    nodes.start()
    nodes.settled([1, 2, 3])
    return nodes


def test_standalone_is_refused_where_the_quorum_answers_and_the_way_to_join_works(trio: Members) -> None:
    with trio:
        two = trio[2]
        old = two.directory_id
        emptied(two)
        file = shlex.quote(str(two.properties))
        refused = typed(f"barnabas storage format --standalone -t {CLUSTER} -c {file}", 1)
        assert f"cluster {CLUSTER} has a quorum already" in refused.stderr
        assert not (two.data / "meta.properties").exists()
        form, add = commands(refused.stderr)
        typed(form)
        two.start()
        trio.observed(two)
        at = f"127.0.0.1:{trio[1].controller}"
        typed(
            f"barnabas quorum --bootstrap-controller {at} --command-config {file} remove-controller -i 2 -d {old}"
        )
        typed(add)
        trio.settled([1, 2, 3])


def test_standalone_goes_on_where_nobody_answers_and_where_another_cluster_does(trio: Members) -> None:
    with trio:
        file = shlex.quote(str(trio[2].properties))
        emptied(trio[2])
        typed(f"barnabas storage format --standalone -t another-cluster-id -c {file}")
        shutil.rmtree(trio[2].data)
        for member in trio.all.values():
            member.close()
        typed(f"barnabas storage format --standalone -t {CLUSTER} -c {file}")


def test_a_node_formatted_alone_while_nobody_answered_looks_once_more_when_it_starts(trio: Members) -> None:
    with trio:
        two = trio[2]
        emptied(two)
        bootstrap = two.settings["controller.quorum.bootstrap.servers"]
        two.settings["controller.quorum.bootstrap.servers"] = ""
        two.write_properties()
        two.format("--standalone")
        two.settings["controller.quorum.bootstrap.servers"] = bootstrap
        two.write_properties()
        stopped = typed(f"barnabas start {shlex.quote(str(two.properties))}", 1)
        assert "has a quorum already" in stopped.stderr
        assert "--no-initial-controllers" in stopped.stderr and "Traceback" not in stopped.stderr
        assert (two.data / "__cluster_metadata-0" / "00000000000000000000.log").stat().st_size == 0


def test_a_second_quorum_that_led_already_ends_nobody_whichever_restarts_first(trio: Members) -> None:
    with trio:
        assert eventually(lambda: create_topic(trio[1], "before") == ErrorCode.NONE)
        two = trio[2]
        emptied(two)
        named = two.settings["controller.quorum.bootstrap.servers"]
        two.settings["controller.quorum.bootstrap.servers"] = ""
        two.write_properties()
        two.format("--standalone")
        two.settings["controller.quorum.bootstrap.servers"] = named
        for number in range(3):  # its epochs pass those of the others
            two.settings["controller.quorum.bootstrap.servers"] = named if number == 2 else ""
            two.write_properties()
            two.start().serving()
            assert create_topic(two, f"elsewhere-{number}") == ErrorCode.NONE
            if number < 2:
                two.kill()
        for again in (1, 3, 2, 3, 1):
            trio[again].kill()
            trio[again].start().serving()
            assert eventually(lambda name=f"after-{again}": create_topic(trio[1], name) in (0, 36)), again  # type: ignore[misc]
            assert all(member.alive for member in trio.all.values())
        for member in (trio[1], trio[3]):
            assert create_topic(member, "before") == ErrorCode.TOPIC_ALREADY_EXISTS
            assert create_topic(member, "after-2") == ErrorCode.TOPIC_ALREADY_EXISTS
            assert "quorum.second-quorum" in member.text()
            assert "quorum.failed" not in member.text()
        assert create_topic(two, "elsewhere-1") == ErrorCode.TOPIC_ALREADY_EXISTS
        assert create_topic(trio[1], "elsewhere-1") == ErrorCode.NONE
