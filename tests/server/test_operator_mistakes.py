"""What an operator may get wrong at a running cluster: one line of reason, one next step, and nothing changed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from tests.server.quorum_processes import CLUSTER, Member, Members

from barnabas.cli.main import main
from barnabas.client.admin.admin import Admin

OTHER_CLUSTER = "AAAAAAAAQACAAAAAAAAAAQ"
CONTROLLERS = "quorum -C {controller} "


class Mistake(NamedTuple):
    """What is typed (places in braces), and what the reason says."""

    line: str
    reason: str


MISTAKES = [
    # wrong ids
    Mistake(CONTROLLERS + "remove-controller -i 9", "controller 9 is no voter: the voters are 1, 2, 3"),
    Mistake(CONTROLLERS + "remove-controller -i 4", "controller 4 is no voter"),
    Mistake(CONTROLLERS + "remove-controller -i 2 -d {directory_3}", "is no voter"),
    Mistake(CONTROLLERS + "remove-controller -i 2 -d nonsense", "--controller-directory-id"),
    Mistake(CONTROLLERS + "reassign --target 1,2,9", "id 9 must be one living replica, found none"),
    Mistake(CONTROLLERS + "reassign --target 1,1,2", "once"),
    Mistake(CONTROLLERS + "reassign --target 1,2,5", "id 5 must be one living replica"),
    Mistake(CONTROLLERS + "reassign --cancel", "no target to cancel"),
    Mistake(CONTROLLERS + "transfer-leadership --to 9", "node 9 is no voter"),
    Mistake(CONTROLLERS + "transfer-leadership --to 4", "node 4 is no voter"),
    Mistake(CONTROLLERS + "transfer-leadership --to 4 --force", "node 4 is no voter"),
    Mistake(CONTROLLERS + "replace --node 9", "node 9 is no voter"),
    Mistake(CONTROLLERS + "replace --node 2", "a new disk of node 2 does not follow"),
    Mistake(CONTROLLERS + "replace --node 2 --with 3", "node 3 is a voter already"),
    Mistake(CONTROLLERS + "replace --node 2 --with 5", "node 5 does not follow"),
    Mistake(CONTROLLERS + "readmit --node 2", "node 2 is a voter already"),
    Mistake(CONTROLLERS + "readmit --node 5", "node 5 does not follow"),
    # wrong files: twice, a broker's, unformatted, dead, another's address, another's disk, another cluster
    Mistake(CONTROLLERS + "-c {file_2} add-controller", "is a voter already"),
    Mistake(CONTROLLERS + "-c {broker_file} add-controller", "not a controller's"),
    Mistake(CONTROLLERS + "-c {unformatted_file} add-controller", "no meta.properties"),
    Mistake(CONTROLLERS + "-c {dead_file} add-controller --timeout 1", "does not answer"),
    Mistake(CONTROLLERS + "-c {address_file} add-controller --timeout 5", "4-"),
    Mistake(CONTROLLERS + "-c {disk_file} add-controller --timeout 1", "does not answer"),
    Mistake(CONTROLLERS + "-c {dead_file} add-controller --dry-run", "has not fetched from this leader"),
    # formats: twice, another cluster, a second quorum, another node's directory, nonsense
    Mistake("storage format -t {cluster} -N -c {file_4}", "is formatted already"),
    Mistake("storage format -t {other} -N -g -c {file_4}", "belongs to node 4 of cluster"),
    Mistake("storage format -t {cluster} -N -g -c {stolen_file}", "belongs to node 2"),
    Mistake("storage format -t {cluster} -s -c {unformatted_file}", "has a quorum already"),
    Mistake("storage format -t {cluster} -I 1@h:1:x -c {unformatted_file}", "not a uuid"),
    Mistake("storage format -t {cluster} -N -f kraft.version=9 -c {unformatted_file}", "does not fit"),
    Mistake("storage format -t {cluster} -N -r 0.8 -c {unformatted_file}", "unknown release"),
    # brokers and features
    Mistake("cluster -b {broker} unregister --id 77", "77"),
    Mistake("brokers drain 77 -b {broker}", "77"),
    Mistake("topics create t -b {broker} --replication 9", "9"),
    Mistake("topics delete nothing -b {broker}", "nothing"),
    Mistake("topics list -b {controller}", "a controller listens there"),
    Mistake("topics describe nothing -b {broker}", "nothing"),
    Mistake("groups describe nobody -b {broker}", "nobody"),
    # a second beginning, a broker that runs forgotten, an address that is nobody's, an early or senseless word
    Mistake(CONTROLLERS + "bootstrap", "is of cluster"),
    Mistake(CONTROLLERS + "bootstrap --cluster-id {other}", "is of cluster"),
    Mistake(CONTROLLERS + "set-endpoint --node 9 --endpoint 127.0.0.1:9", "9"),
    Mistake(CONTROLLERS + "set-endpoint --node 2 --endpoint nonsense", "nonsense"),
    Mistake(CONTROLLERS + "reassign --target 4,5,6,", "--target"),
    Mistake(CONTROLLERS + "reassign --target 4 --cancel", "one of the two"),
    Mistake(CONTROLLERS + "remove-controller", "--controller-id"),
    Mistake(CONTROLLERS + "remove-controler -i 2", "remove-controler"),
    Mistake(
        "brokers unregister 2 -b {broker}", "broker 2 runs, and would stay out until it is started again"
    ),
]

STARTS = [
    Mistake("start {unformatted_file}", "not formatted"),
    Mistake("start {stolen_file}", "node"),
    Mistake("start {file_2}", ""),
    Mistake("start {port_file}", "port"),
]


class Scene:
    """Three combined nodes that vote, an observer (4), a controller that is formatted and off (5)."""

    def __init__(self, nodes: Members) -> None:
        self.nodes = nodes
        fourth, dead = nodes[4], nodes[5]
        one = nodes[1]
        self.places = {
            "controller": f"127.0.0.1:{one.controller}",
            "broker": f"127.0.0.1:{one.port}",
            "cluster": CLUSTER,
            "other": OTHER_CLUSTER,
            "directory_3": str(nodes[3].directory_id),
            "file_2": str(nodes[2].properties),
            "file_4": str(fourth.properties),
            "dead_file": str(dead.properties),
            "broker_file": self._file("broker", one, roles="broker", node=8),
            "unformatted_file": self._file("unformatted", dead, node=6, directory="none"),
            "address_file": self._file("address", fourth, controller=nodes[2].controller),
            "disk_file": self._file("disk", fourth, node=6, directory=str(fourth.data), controller=1),
            "stolen_file": self._file("stolen", dead, node=7, directory=str(nodes[2].data)),
            "port_file": self._file("port", dead, controller=nodes[2].controller, directory=str(dead.data)),
        }

    def _file(
        self,
        name: str,
        like: Member,
        *,
        roles: str = "controller",
        node: int | None = None,
        directory: str = "",
        controller: int | None = None,
    ) -> str:
        folder = self.nodes.folder / name
        folder.mkdir()
        settings = dict(like.settings)
        settings["process.roles"] = roles
        settings["node.id"] = str(node or like.id)
        settings["listeners"] = f"CONTROLLER://127.0.0.1:{controller or like.controller}"
        if roles == "broker":
            settings["listeners"] = "PLAINTEXT://127.0.0.1:1"
        if directory:
            settings["log.dirs"] = directory if directory.startswith("/") else str(folder / directory)
        (folder / "server.properties").write_text("".join(f"{k}={v}\n" for k, v in settings.items() if v))
        return str(folder / "server.properties")

    def words(self, mistake: Mistake) -> list[str]:
        return mistake.line.format(**self.places).split()

    def state(self) -> object:
        """What none of them may change."""
        with Admin(self.places["controller"]) as admin, Admin(self.places["broker"]) as broker:
            detail = admin.quorum_detail()
            assert detail.quorum is not None
            voters = [(voter.id, str(voter.directory_id)) for voter in detail.quorum.voters]
            cluster = broker.describe_cluster(fenced=True)
            topics = sorted(broker.topics())
            return (
                voters,
                detail.target,
                [one.id for one in cluster.brokers],
                topics,
                [f.finalized for f in admin.features()],
            )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("mistakes")
    with Members.formed(folder, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        dead = nodes.join(5)
        dead.kill()
        nodes.observed(nodes.join(4))
        nodes[1].serving()
        yield Scene(nodes)


Capsys = pytest.CaptureFixture[str]


def two_lines(out: str, err: str, mistake: Mistake) -> None:
    lines = [line for line in err.splitlines() if line.startswith(("error: ", "  next: "))]
    assert len(lines) == 2 and lines[0].startswith("error: ") and mistake.reason in lines[0], (out, err)
    assert "Traceback" not in err and len(lines[1]) > 15, err


@pytest.mark.parametrize(
    "mistake", MISTAKES, ids=lambda mistake: mistake.line.replace(CONTROLLERS, "quorum ")[:60]
)
def test_a_mistake_is_explained_and_changes_nothing(scene: Scene, mistake: Mistake, capsys: Capsys) -> None:
    before = scene.state()
    capsys.readouterr()
    code = main(scene.words(mistake))
    out, err = capsys.readouterr()
    assert code not in (0, None), (out, err)
    two_lines(out, err, mistake)
    assert scene.state() == before


@pytest.mark.parametrize("mistake", STARTS, ids=lambda mistake: mistake.line)
def test_a_node_that_is_started_by_mistake_says_why_it_does_not_start(scene: Scene, mistake: Mistake) -> None:
    before = scene.state()
    command = [sys.executable, "-m", "barnabas", *scene.words(mistake)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode not in (0, None)
    two_lines(done.stdout, done.stderr, mistake)
    assert scene.state() == before


@pytest.mark.parametrize(
    ("line", "reason"),
    [("downgrade -f kraft.version=0", "it can only be raised"), ("upgrade -f no.such=1", "unknown feature")],
)
def test_a_level_that_cannot_be_is_refused_in_kafkas_words_and_with_a_next_step(
    scene: Scene, line: str, reason: str, capsys: Capsys
) -> None:
    before = scene.state()
    capsys.readouterr()
    assert main(["features", "-C", scene.places["controller"], *line.split()]) == 1
    out, err = capsys.readouterr()
    assert reason in out and err.startswith("  next: ") and scene.state() == before


def test_there_are_forty_of_them() -> None:
    assert len(MISTAKES) + len(STARTS) >= 40
