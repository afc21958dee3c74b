"""However the process of a test ends, its nodes end with it, and their directories go."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S
from tests.pidfd import pidfd_open

from barnabas.errors import BarnabasError
from barnabas.testing import Cluster, Node

ALONE = """
from barnabas.testing import Cluster
kafka = Cluster()
kafka.start()
print(kafka.pid, kafka.directory, flush=True)
input()
"""
WAITS_FOR_OTHERS = """
from barnabas.testing import Cluster
kafka = Cluster(nodes=3)
kafka.node(1).launch()  # (the quorum of three does not come)
print(kafka.pid, kafka.directory, flush=True)
input()
"""


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory for temporary files of this test alone."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.mark.parametrize("program", [ALONE, WAITS_FOR_OTHERS], ids=["ready", "starting"])
def test_a_killed_test_run_leaves_no_node_and_the_next_one_removes_its_directory(
    short: Path, program: str
) -> None:
    test = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert test.stdout is not None
    pid, directory = test.stdout.readline().split()
    ended = pidfd_open(int(pid))
    Cluster().close()
    assert os.path.isdir(directory), "the directory of a run that lives is left alone"
    test.send_signal(signal.SIGKILL)
    test.communicate()
    assert select.select([ended], [], [], PATIENCE_S)[0], "the node still runs"
    os.close(ended)
    Cluster().close()
    assert list(short.glob("barnabas-*")) == []


def test_a_directory_is_held_for_as_long_as_a_node_of_it_lives(short: Path) -> None:
    cluster = Cluster()
    assert cluster._held is not None
    node = Node(
        1,
        cluster.directory,
        lambda _: [sys.executable, "-c", "print(flush=True); input()"],
        held=cluster._held,
    )
    node.launch()
    assert node._line(PATIENCE_S) == b""
    os.close(cluster._held)  # as if this process had been killed
    Cluster().close()
    assert os.path.isdir(cluster.directory)
    node.end(signal.SIGKILL)
    Cluster().close()
    assert not os.path.isdir(cluster.directory)


@pytest.mark.parametrize("nodes", [1, 2])
def test_the_log_that_a_failed_start_names_can_be_read(short: Path, nodes: int) -> None:
    cluster = Cluster({"num.partitions": "none"}, nodes=nodes)
    with pytest.raises(BarnabasError, match=r"num\.partitions") as failed, cluster:
        pass
    named = Path(str(failed.value.next_step).removeprefix("see "))
    assert "num.partitions" in named.read_text()
    assert all(node.pid is None and not os.path.exists(node.data) for node in cluster.nodes)
    cluster.close()
    assert list(short.glob("barnabas-*")) == []


def test_a_node_with_listeners_of_its_own_keeps_its_ports_when_it_starts_again() -> None:
    settings = {
        "listeners": "APPS://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "APPS:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "APPS",
    }
    with Cluster(settings) as kafka:
        before = kafka.bootstrap
        kafka.restart()
        assert kafka.bootstrap == before


def test_several_nodes_do_not_share_the_port_of_a_listener() -> None:
    with pytest.raises(ValueError, match="give port 0"):
        Cluster({"listeners": "PLAINTEXT://127.0.0.1:19092"}, nodes=2)
