"""Starting without a format step: `start --bootstrap`, `start --join`, `quorum bootstrap`."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.server.quorum_processes import CLUSTER, Member, Members, barnabas, eventually, free_ports

from barnabas.log.files.disk import OsDisk
from barnabas.log.files.meta_properties import read_meta_properties


def new(folder: Path, *ids: int) -> Members:
    """Nodes that are not formatted, whose files name no controller."""
    nodes = Members(folder)
    for id_ in ids:
        first, second = free_ports(2)
        nodes.all[id_] = Member(folder / f"n{id_}", id_, (first, second), (), "controller")
    return nodes


def launch(member: Member, *words: str) -> Member:
    member.command = [*member.command[:5], *words]
    return member.start()


def cluster_of(member: Member) -> str:
    meta = read_meta_properties(OsDisk(), str(member.data))
    assert meta is not None
    return meta.cluster_id


def test_one_node_begins_a_cluster_and_others_join_it_whatever_starts_first(tmp_path: Path) -> None:
    with new(tmp_path, 1, 2, 3) as nodes:
        one = f"127.0.0.1:{nodes[1].controller}"
        for id_ in (2, 3):
            launch(nodes[id_], "--join", one)  # it waits
        launch(nodes[1], "--bootstrap", "--cluster-id", CLUSTER)
        nodes.settled([1])
        eventually(lambda: nodes[2].data.exists() and cluster_of(nodes[2]) == CLUSTER)
        for id_ in (2, 3):
            nodes.observed(nodes[id_])
            nodes.add(nodes[id_])
        nodes.settled([1, 2, 3])

        # the same words once more change nothing
        for member in nodes.all.values():
            member.kill()
            member.start()
        nodes.settled([1, 2, 3])

        # its disk is lost: it begins no second cluster, and joins as an observer, with advice
        nodes[2].kill()
        shutil.rmtree(nodes[2].data)
        config = str(nodes[2].properties)
        nodes[2].settings["controller.quorum.bootstrap.servers"] = one
        nodes[2].write_properties()
        barnabas("start", config, "--bootstrap", code=1)
        barnabas("start", config, "--bootstrap", "--cluster-id", CLUSTER, code=1)
        assert not nodes[2].data.exists()
        launch(nodes[2], "--join", one)
        eventually(lambda: "quorum replace --node 2" in nodes[2].text())


def test_nodes_that_all_wait_get_a_cluster_by_one_command(tmp_path: Path) -> None:
    with new(tmp_path, 1, 2) as nodes:
        one, two = (f"127.0.0.1:{member.controller}" for member in nodes.all.values())
        for member in nodes.all.values():
            launch(member, "--join", f"{one},{two}")
        said = eventually(lambda: barnabas("quorum", "-C", one, "bootstrap", "--cluster-id", CLUSTER))
        assert said == f"Cluster {CLUSTER} has begun with controller 1; nodes that wait join it.\n"
        nodes.leader()
        nodes.observed(nodes[2])
        barnabas("quorum", "-C", one, "bootstrap", "--cluster-id", CLUSTER)  # the same: nothing to do
        barnabas("quorum", "-C", one, "bootstrap", code=1)
        barnabas("quorum", "-C", two, "bootstrap", code=1)
        assert cluster_of(nodes[1]) == cluster_of(nodes[2]) == CLUSTER


def test_words_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    member = new(tmp_path, 1)[1]
    config = str(member.properties)
    for words in (
        (config, "--bootstrap", "--join", "h:1"),
        (config, "--cluster-id", CLUSTER),
        (config, "--join", "nowhere"),
        ("--bootstrap",),
    ):
        barnabas("start", *words, code=2)
    barnabas("start", config, "--join", f"127.0.0.1:{member.controller}", code=1)  # nobody but itself
    assert not member.data.exists()
