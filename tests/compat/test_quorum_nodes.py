"""Quorums of real processes for longer: members change under load, everything dies at once, disks jump ahead.

BARNABAS_ROUNDS says how often the repeated ones repeat (default 5; the acceptance figure is 20).
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.server.quorum_processes import (
    CLUSTER,
    Member,
    Members,
    barnabas,
    create_topic,
    eventually,
    free_ports,
)

from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError, ErrorCode

pytestmark = pytest.mark.compat
ROUNDS = int(os.environ.get("BARNABAS_ROUNDS", "5"))


class Load:
    """Creates topics through one broker after the other; remembers those that were acknowledged."""

    def __init__(self, brokers: list[Member]) -> None:
        self.brokers = brokers
        self.acknowledged: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    def _run(self) -> None:
        number = 0
        while not self._ended.is_set():
            number += 1
            name = f"load-{number}"
            try:
                if create_topic(self.brokers[number % len(self.brokers)], name) == ErrorCode.NONE:
                    self.acknowledged.append(name)
            except (BarnabasError, OSError):
                pass
            time.sleep(0.01)


def topics_of(member: Member) -> set[str]:
    with Admin(f"127.0.0.1:{member.port}", timeout=20) as admin:
        return {topic.name for topic in admin.topics()}


def wait_for_topics(member: Member, names: set[str]) -> None:
    """Each broker reads the log at its own pace: the last topics may be new to it yet."""
    eventually(lambda: names <= topics_of(member), 20, f"{len(names)} topics at {member}")


def one_leader_per_epoch(nodes: Members) -> None:
    leaders = nodes.leaders_by_epoch()
    assert leaders and all(len(who) == 1 for who in leaders.values()), leaders


@pytest.mark.parametrize(
    ("how", "size"), [("initial", 3), ("standalone", 3), ("static", 3), ("initial", 5), ("standalone", 5)]
)
def test_members_change_under_load_and_nothing_acknowledged_is_lost(
    tmp_path: Path, how: str, size: int
) -> None:
    """Formed in each of the three ways; then rounds of add, remove and leader removal."""
    ids = list(range(1, size + 1))
    with Members.formed(tmp_path, 1 if how == "standalone" else size, how=how) as nodes:
        nodes.start()
        if how == "standalone":
            nodes.settled([1])
            for id_ in ids[1:]:
                joined = nodes.join(id_, "broker,controller")
                nodes.observed(nodes[id_])
                nodes.add(joined)
        nodes.settled(ids, within=40)
        brokers = [nodes[i] for i in ids]
        for broker in brokers:
            broker.serving()
        if how == "static":
            upgrade_to_1(nodes)
        with Load(brokers) as load:
            for _ in range(ROUNDS):
                change_members(nodes)
        assert len(load.acknowledged) > ROUNDS
        for broker in brokers:
            wait_for_topics(broker, set(load.acknowledged))
        one_leader_per_epoch(nodes)


def upgrade_to_1(nodes: Members) -> None:
    """The static voters become voters that change, while they run."""
    bootstrap = f"127.0.0.1:{nodes[1].port}"
    state = nodes[1].data / "__cluster_metadata-0" / "quorum-state"
    assert '"currentVoters":[{"voterId":1},{"voterId":2},{"voterId":3}],"data_version":0' in state.read_text()
    row = nodes.leader().describe()
    assert all(str(voter.replica_directory_id) == "AAAAAAAAAAAAAAAAAAAAAA" for voter in row.current_voters)
    flags = ("features", "upgrade", "--feature", "kraft.version=1", "-b", bootstrap)
    eventually(lambda: barnabas(*flags, "--dry-run") == "kraft.version can be upgraded to 1.\n")
    assert barnabas(*flags) == "kraft.version was upgraded to 1.\n"
    row = eventually(lambda: nodes.leader().describe())
    assert {voter.replica_id: voter.replica_directory_id for voter in row.current_voters} == {
        id_: nodes[id_].directory_id for id_ in (1, 2, 3)
    }


def change_members(nodes: Members) -> None:
    """A follower leaves and comes back, then the leader does."""
    for chosen in ("follower", "leader"):
        leader = nodes.leader()
        member = leader
        if chosen == "follower":
            member = next(m for m in nodes.all.values() if m is not leader)
        nodes.remove(member)
        rest = [id_ for id_ in sorted(nodes.all) if id_ != member.id]
        nodes.settled(rest)
        nodes.observed(member)
        nodes.add(member)
        nodes.settled(sorted(nodes.all))


def test_five_nodes_outlive_two_of_them_and_their_leader(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 5, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3, 4, 5], within=40)
        for _ in range(2):
            nodes.leader().kill()
            nodes.leader()
        survivor = nodes.leader()
        assert create_topic(survivor, "none", broker=False) == ErrorCode.INVALID_REPLICATION_FACTOR, (
            "no broker"
        )
        before = survivor.describe().high_watermark
        for member in nodes.all.values():
            if not member.alive:
                member.start()
        assert nodes.settled([1, 2, 3, 4, 5], within=40).high_watermark > before
        one_leader_per_epoch(nodes)


def test_everything_killed_at_once_during_a_change_comes_back_with_what_was_committed(tmp_path: Path) -> None:
    chance = random.Random(6)
    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        brokers = list(nodes.all.values())
        for broker in brokers:
            broker.serving()
        acknowledged: list[str] = []
        for number in range(ROUNDS):
            with Load(brokers) as load:
                change = threading.Thread(target=a_change, args=(nodes,), daemon=True)
                change.start()
                time.sleep(chance.uniform(0.0, 0.15))
                for member in nodes.all.values():
                    member.signal(signal.SIGKILL)
                for member in nodes.all.values():
                    member.kill()
                change.join(30)
            acknowledged += [f"{number}-{name}" for name in load.acknowledged]
            kept = list(load.acknowledged)
            nodes.start()
            nodes.leader(within=40)
            put_back(nodes)
            known: set[str] = eventually(lambda: topics_of(nodes[1]), within=40)
            assert set(kept) <= known, set(kept) - known
            with Admin(f"127.0.0.1:{nodes[1].port}", timeout=20) as admin:
                for name in known & set(kept):
                    admin.delete_topic(name)
        one_leader_per_epoch(nodes)


def a_change(nodes: Members) -> None:
    try:
        leader = nodes.leader(within=5)
        nodes.remove(next(m for m in nodes.all.values() if m is not leader), at=leader)
    except (AssertionError, BarnabasError, OSError):
        pass  # it was killed in the middle: whether it happened is what the log says


def put_back(nodes: Members) -> None:
    """All three vote again, whatever became of the change."""
    for id_ in (1, 2, 3):
        row = nodes.leader(within=40).describe()
        if id_ not in [voter.replica_id for voter in row.current_voters]:
            nodes.observed(nodes[id_])
            nodes.add(nodes[id_])
    nodes.settled([1, 2, 3], within=40)


def test_a_controller_that_was_stopped_but_not_killed_is_replaced_and_follows_later(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        frozen = nodes.leader()
        frozen.signal(signal.SIGSTOP)
        others = Members(tmp_path)
        others.all = {id_: m for id_, m in nodes.all.items() if m is not frozen}
        begun = time.monotonic()
        heir = others.leader(within=30)
        print(f"SIGSTOP of the leader: another one after {time.monotonic() - begun:.2f} s")
        frozen.signal(signal.SIGCONT)
        assert nodes.settled([1, 2, 3]).leader_id == heir.id
        one_leader_per_epoch(nodes)


def test_a_replaced_disk_is_another_member_and_the_old_one_has_to_go_first(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        broken = next(m for m in nodes.all.values() if m is not nodes.leader())
        old = broken.directory_id
        broken.kill()
        broken.data.rename(tmp_path / "broken-disk")
        broken.format("--no-initial-controllers")
        broken.start()
        assert broken.directory_id != old
        nodes.observed(broken)
        eventually(lambda: f"voter={broken.id}-{old}" in broken.text(), what="a word about the other disk")
        assert broken.text().count("quorum.other-disk") == 1
        with pytest.raises(AssertionError, match="DUPLICATE_VOTER"):
            nodes.add(broken)
        address = f"127.0.0.1:{nodes.leader().controller}"
        flags = ("--controller-id", str(broken.id), "--controller-directory-id", str(old))
        said = barnabas("quorum", "--bootstrap-controller", address, "remove-controller", *flags)
        assert said.replace("  ", " ") == f"Removed KRaft controller {broken.id} with directory id {old}\n"
        config = ("--command-config", str(broken.properties))
        said = barnabas("quorum", "--bootstrap-controller", address, *config, "add-controller")
        endpoint = f"CONTROLLER://127.0.0.1:{broken.controller}"
        assert said == (
            f"Added controller {broken.id} with directory id {broken.directory_id} and endpoints: {endpoint}\n"
        )
        nodes.settled([1, 2, 3])


def test_a_failed_node_is_replaced_by_one_with_another_id(tmp_path: Path) -> None:
    """KIP-853, node failure recovery: 4 joins as observer and is added, then the dead one is removed."""
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        dead = nodes.leader()
        dead.kill()
        heir = nodes.join(4)
        nodes.observed(heir)
        nodes.add(heir)
        assert {voter.replica_id for voter in nodes.leader().describe().current_voters} == {1, 2, 3, 4}
        nodes.remove(dead)
        nodes.settled([id_ for id_ in (1, 2, 3, 4) if id_ != dead.id])
        one_leader_per_epoch(nodes)


def test_one_that_comes_late_begins_with_the_leaders_snapshot(tmp_path: Path) -> None:
    settings = {"metadata.log.max.snapshot.interval.ms": "300"}
    with Members.formed(tmp_path, 1, how="standalone", **settings) as nodes:
        nodes.start()
        nodes.settled([1])
        eventually(lambda: create_topic(nodes[1], "flights") == ErrorCode.NONE)
        metadata = nodes[1].data / "__cluster_metadata-0"
        eventually(lambda: len(list(metadata.glob("*.checkpoint"))) > 1, what="a snapshot")
        late = nodes.join(2, "broker,controller")
        late.serving()
        assert "flights" in topics_of(late)
        first = min(path.name for path in (late.data / "__cluster_metadata-0").glob("*.log"))
        assert int(first.split(".")[0]) > 0, "its log begins behind the snapshot"
        nodes.add(late)
        nodes.settled([1, 2])


def test_one_wish_takes_three_voters_to_three_others_while_clients_go_on(tmp_path: Path) -> None:
    """KIP-642: (1,2,3) -> (4,5,6), then half way back and cancelled."""
    with Members.formed(tmp_path, 3) as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        for id_ in (4, 5, 6):
            nodes.join(id_, "broker,controller")
        for id_ in (4, 5, 6):
            nodes.observed(nodes[id_])
            nodes[id_].serving()
        at = ("--bootstrap-server", f"127.0.0.1:{nodes[4].port}")
        begun = time.monotonic()
        with Load([nodes[4], nodes[5], nodes[6]]) as load:
            said = barnabas("quorum", *at, "reassign", "--target", "4,5,6")
            assert said == "The voters shall be 4, 5, 6.  `barnabas quorum watch` shows the way there.\n"
            nodes.settled([4, 5, 6], within=60)
            print(
                f"1,2,3 -> 4,5,6 in {time.monotonic() - begun:.1f} s, {len(load.acknowledged)} topics meanwhile"
            )
        eventually(lambda: barnabas("quorum", *at, "reassign") == "No change of controllers is under way.\n")
        assert load.acknowledged and set(load.acknowledged) <= topics_of(nodes[5])
        for target in ("1,2,3", "1,2,3", "4,5,6"):  # the same again; another one while it is under way
            barnabas("quorum", *at, "reassign", "--target", target)
        nodes.settled([4, 5, 6], within=60)
        eventually(lambda: barnabas("quorum", *at, "reassign") == "No change of controllers is under way.\n")
        nodes[1].signal(signal.SIGSTOP)  # so that the change cannot be over before it is cancelled
        with Admin(f"127.0.0.1:{nodes[4].port}", timeout=20) as admin:
            admin.reassign_controllers([1, 2, 3])
        assert barnabas("quorum", *at, "reassign", "--cancel") == "The voters stay as they are.\n"
        nodes[1].signal(signal.SIGCONT)
        eventually(lambda: barnabas("quorum", *at, "reassign") == "No change of controllers is under way.\n")
        stayed = [voter.replica_id for voter in nodes.leader().describe().current_voters]
        barnabas("quorum", *at, "reassign", "--target", ",".join(map(str, stayed)))
        nodes.settled(stayed)
        barnabas("quorum", *at, "reassign", "--target", "4,5,6")
        nodes.settled([4, 5, 6], within=60)
        for id_ in (1, 2):
            nodes[id_].kill()
        time.sleep(3)  # longer than the fetch timeout: now they count as dead
        with pytest.raises(AssertionError, match="must be one living replica"):
            barnabas("quorum", *at, "reassign", "--target", "1,4,5")
        with pytest.raises(AssertionError, match="there is no target"):
            barnabas("quorum", *at, "reassign", "--cancel")
        one_leader_per_epoch(nodes)


def test_a_controller_that_may_joins_by_itself_and_one_that_was_removed_stays_out(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 1, "controller", how="standalone") as nodes:
        nodes.start()
        nodes.settled([1])
        joined = nodes.join(2, **{"controller.quorum.auto.join.enable": "true"})
        nodes.settled([1, 2])
        nodes.remove(joined)
        nodes.settled([1])
        time.sleep(5)  # two of its attempts: an operator removed it, so it does not come back by itself
        assert [voter.replica_id for voter in nodes.leader().describe().current_voters] == [1]
        nodes.add(joined)
        nodes.settled([1, 2])


def test_a_node_of_another_cluster_is_not_heard_and_says_so_once(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 1, "controller", how="standalone") as nodes:
        nodes.start()
        nodes.settled([1])
        pair = free_ports(2)
        stranger = Member(tmp_path / "s", 2, (pair[0], pair[1]), [nodes[1].controller], "controller")
        stranger.format("--no-initial-controllers", cluster=barnabas("storage", "random-uuid").strip())
        nodes.all[2] = stranger.start()
        eventually(lambda: "quorum.stranger" in stranger.text())
        time.sleep(2)
        assert stranger.text().count("quorum.stranger") == 1 and stranger.alive
        assert [row.replica_id for row in nodes[1].describe().observers] == []


def test_a_second_process_under_the_same_id_is_named(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 1, "controller", how="standalone") as nodes:
        nodes.start()
        nodes.settled([1])
        first = nodes.join(2)
        nodes.observed(first)
        pair = free_ports(2)
        twin = Member(tmp_path / "twin", 2, (pair[0], pair[1]), [nodes[1].controller], "controller")
        twin.format("--no-initial-controllers")
        nodes.all[22] = twin.start()
        eventually(lambda: "quorum.twin" in first.text() or "quorum.twin" in twin.text())


def test_every_command_works_at_any_node(tmp_path: Path) -> None:
    with Members.formed(tmp_path, 3, "controller") as nodes:
        nodes.start()
        nodes.settled([1, 2, 3])
        broker = nodes.join(7, "broker")
        broker.serving()
        follower = next(m for m in nodes.all.values() if m is not nodes.leader() and m is not broker)
        at_broker = ("--bootstrap-server", f"127.0.0.1:{broker.port}")
        at_follower = ("--bootstrap-controller", f"127.0.0.1:{follower.controller}")
        for at in (at_broker, at_follower):
            status = barnabas("quorum", *at, "describe", "--status")
            assert status.splitlines()[1] == f"LeaderId:               {nodes.leader().id}"
            assert '"endpoints": ["CONTROLLER://127.0.0.1:' in status
            lines = barnabas("quorum", *at, "describe", "--re", "--hu").splitlines()
            assert [line.split("\t")[-2].strip() for line in lines[1:]] == [
                "Leader",
                "Follower",
                "Follower",
                "Observer",
            ]
            assert "Feature: kraft.version" in barnabas("features", *at, "describe")
            assert barnabas("cluster", *at, "id") == f"Cluster ID: {CLUSTER}\n"
        fourth = nodes.join(4)
        config = ("--command-config", str(fourth.properties))
        for at in (at_broker, at_follower):
            nodes.observed(fourth)
            assert barnabas("quorum", *at, *config, "add-controller").startswith("Added controller 4 ")
            directory = str(fourth.directory_id)
            gone = barnabas("quorum", *at, "remove-controller", "-i", "4", "-d", directory)
            assert gone.replace("  ", " ") == f"Removed KRaft controller 4 with directory id {directory}\n"
        rows = barnabas("cluster", *at_follower, "list-endpoints").splitlines()
        assert [row.split()[0] for row in rows[1:]] == ["1", "2", "3", "4"]
        broker.kill()
        eventually(
            lambda: (
                barnabas("cluster", *at_follower, "unregister", "--id", "7")
                == "Broker 7 is no longer registered.\n"
            )
        )
        assert "BROKER_ID_NOT_REGISTERED" in eventually(
            lambda: refused("cluster", *at_follower, "unregister")
        )


def refused(*arguments: str) -> str:
    import subprocess
    import sys

    run = subprocess.run(
        [sys.executable, "-m", "barnabas", *arguments, "--id", "7"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode != 0
    return run.stderr


CONTROLLER_FILE = """node.id=0
process.roles=controller
listeners=CONTROLLER://localhost:8000
listener.security.protocol.map=CONTROLLER:PLAINTEXT
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=localhost:8000,localhost:8001,localhost:8002
metadata.log.dir=/opt/kafka/server0/metadata
log.dirs=/opt/kafka/server0/data
"""
BROKER_FILE = """node.id=7
process.roles=broker
listeners=REPLICATION://localhost:8007,CLIENT://localhost:9092
listener.security.protocol.map=CONTROLLER:PLAINTEXT,REPLICATION:PLAINTEXT,CLIENT:PLAINTEXT
advertised.listeners=REPLICATION://localhost:8007,CLIENT://localhost:9092
controller.listener.names=CONTROLLER
inter.broker.listener.name=REPLICATION
controller.quorum.bootstrap.servers=localhost:8000,localhost:8001,localhost:8002
metadata.log.dir=/opt/kafka/server7/metadata
log.dirs=/opt/kafka/server7/data
"""


def test_the_property_files_of_the_operators_guide_start_a_controller_and_a_broker(tmp_path: Path) -> None:
    """As they stand in the description of a dynamic quorum, other paths and free ports aside."""
    ports = dict(zip(("8000", "8007", "9092"), map(str, free_ports(3)), strict=True))
    texts = []
    for text in (CONTROLLER_FILE, BROKER_FILE):
        for old, new in {**ports, "/opt/kafka": str(tmp_path)}.items():
            text = text.replace(f":{old}", f":{new}") if old.isdigit() else text.replace(old, new)
        texts.append(text)
    controller = Member(tmp_path / "c", 0, (0, int(ports["8000"])), [], "controller")
    broker = Member(tmp_path / "b", 7, (int(ports["9092"]), 0), [], "broker")
    nodes = Members(tmp_path)
    nodes.all = {0: controller, 7: broker}
    with nodes:
        for member, text in zip((controller, broker), texts, strict=True):
            member.properties.write_text(text)
        directory = barnabas("storage", "random-uuid").strip()
        controller.format("--initial-controllers", f"0@localhost:{ports['8000']}:{directory}")
        broker.format()
        nodes.start()
        nodes.settled([0])
        assert eventually(lambda: create_topic(broker, "flights") == ErrorCode.NONE)
        status = barnabas("quorum", "-b", f"localhost:{ports['9092']}", "describe", "--status")
        assert f'"endpoints": ["CONTROLLER://localhost:{ports["8000"]}"]' in status
