"""Scenarios of the quorum's files and of the commands that make and show them (K137 to K140, K175 to K186)."""

from __future__ import annotations

import contextlib
import json
from argparse import ArgumentParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from raft_cluster import key_of, voter_set
from tests.controller.cluster import CLUSTER, Chance

from barnabas.cli.main import main
from barnabas.cli.quorum import quorum
from barnabas.cli.quorum.quorum import replication_lines, status_lines
from barnabas.client.admin.described import QuorumDescription, QuorumReplica
from barnabas.config import Config
from barnabas.errors import ConfigError, StorageError
from barnabas.log.files import snapshot as files
from barnabas.log.files.disk import OsDisk
from barnabas.model import NO_NODE, ZERO_UUID, Now, ReplicaKey, Uuid
from barnabas.raft.entries import ElectionState, SnapshotId, VotersEntry
from barnabas.raft.log_view import LogView
from barnabas.server.kraft.election_state import QUORUM_STATE, election_text, read_election
from barnabas.server.kraft.records import read_snapshot
from barnabas.server.kraft.snapshots import SnapshotKeeper
from barnabas.server.node.format import (
    FormatPlan,
    FormatResult,
    format_directories,
    parse_initial_controllers,
)
from barnabas.sim.kernel.disk import MemoryDisk

FIRST = "00000000000000000000-0000000000.checkpoint"
D1, D2 = (Uuid.parse(f"AAAAAAAAQAAAAAAAAAA{letter}AA") for letter in "BC")
TWO = f"1@127.0.0.1:1:{D1},2@[::1]:2:{D2}"


# ------------------------------------------------------------------ snapshots on disk


class KeptLog:
    """As much of the metadata log as retention looks at."""

    size = 100

    def __init__(self) -> None:
        self.start = 10

    def increment_log_start(self, offset: int) -> None:
        self.start = offset

    def retain(self, now: Now) -> None:
        """Segments go when a snapshot stands for them; there are none here."""


def keeper(*, retention_bytes: int, retention_ms: int) -> tuple[SnapshotKeeper, KeptLog, MemoryDisk]:
    """Snapshots at 10, 20 and 30, of 100 bytes each, written at 1, 2 and 3 seconds; now it is 4 seconds."""
    disk, log, log_view = MemoryDisk(1), KeptLog(), LogView()
    for seconds, end in ((1, 10), (2, 20), (3, 30)):
        log_view.restore_snapshot(SnapshotId(end, 1), 100, (VotersEntry(voter_set(1)),))
        path = f"/m/{files.SnapshotId(end, 1).file_name}"
        disk.put(path, b"x" * 100)
        disk.set_modified_ms(path, seconds * 1000)
    clock = SimpleNamespace(now=lambda: Now(4.0, 4000))
    store = SimpleNamespace(disk=disk, log=log, log_view=log_view, path="/m", clock=clock, bad_snapshots={})
    settings = SimpleNamespace(retention_bytes=retention_bytes, retention_ms=retention_ms)
    return SnapshotKeeper(cast(Any, settings), cast(Any, store)), log, disk


@pytest.mark.parametrize(
    ("retention", "start"),
    [
        ({"retention_bytes": -1, "retention_ms": -1}, None),
        ({"retention_bytes": 400, "retention_ms": 3000}, None),
        ({"retention_bytes": 399, "retention_ms": -1}, 20),
        ({"retention_bytes": -1, "retention_ms": 1500}, 30),
        ({"retention_bytes": 0, "retention_ms": 0}, 30),
    ],
)
def test_old_snapshots_go_by_size_and_by_time_and_the_last_one_never(
    retention: dict[str, int], start: int | None
) -> None:
    """K137: whatever the limits, one snapshot stays, and the log begins at a snapshot."""
    kept, log, disk = keeper(**retention)
    assert kept.clean() == start
    assert log.start == (start or 10)
    left = [snapshot.end_offset for snapshot in files.list_snapshots(disk, "/m")]
    assert left == [end for end in (10, 20, 30) if end >= log.start]


def test_a_start_removes_what_was_half_written_or_half_deleted_and_refuses_a_hole() -> None:
    """K139, K140."""
    disk = MemoryDisk(1)
    whole = files.SnapshotId(20, 1).file_name
    for name in (whole, f"{files.SnapshotId(30, 1).file_name}.part", f"{whole}.deleted"):
        disk.put(f"/m/{name}", b"x")
    assert files.clean_snapshots_at_start(disk, "/m", 0) == files.SnapshotId(20, 1)
    assert disk.list("/m") == [whole]
    with pytest.raises(StorageError, match="no snapshot"):
        files.clean_snapshots_at_start(disk, "/m", 21)


# ------------------------------------------------------------------ the election's file


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize(
    "state",
    [
        ElectionState(7),
        ElectionState(7, 2),
        ElectionState(7, NO_NODE, key_of(3)),
        ElectionState(7, 2, key_of(3)),
    ],
)
def test_an_election_comes_back_from_its_file_as_it_was_written(version: int, state: ElectionState) -> None:
    """K184: version 0 has no place for the disk of a vote."""
    disk = MemoryDisk(1)
    disk.put(f"/m/{QUORUM_STATE}", election_text(state, version, voter_set(1, 2, 3)))
    assert json.loads(disk.read(f"/m/{QUORUM_STATE}"))["data_version"] == version
    expected = state.voted
    if expected is not None and version == 0:
        expected = ReplicaKey(expected.id, ZERO_UUID)
    assert read_election(disk, "/m") == ElectionState(state.epoch, state.leader_id, expected)


def test_an_election_file_of_an_unknown_version_stops_the_start() -> None:
    """K184: a node that forgets its vote may vote twice."""
    disk = MemoryDisk(1)
    assert read_election(disk, "/m") is None
    for content in (b'{"leaderEpoch":1,"votedId":-1,"data_version":2}', b"{", b"[]"):
        disk.put(f"/m/{QUORUM_STATE}", content)
        with pytest.raises(StorageError) as refused:
            read_election(disk, "/m")
        assert refused.value.fatal


@pytest.mark.parametrize("version", [0, 1])
def test_no_flipped_bit_of_an_election_file_is_another_vote(version: int) -> None:
    disk = MemoryDisk(1)
    state = ElectionState(7, NO_NODE, key_of(3) if version else ReplicaKey(3, ZERO_UUID), 2, ZERO_UUID)
    whole = election_text(state, version, voter_set(1, 2, 3))
    for bit in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[bit // 8] ^= 1 << bit % 8
        disk.put(f"/m/{QUORUM_STATE}", bytes(changed))
        with contextlib.suppress(StorageError):
            assert read_election(disk, "/m") == state, changed


def test_an_election_file_that_apache_kafka_wrote_is_believed() -> None:
    disk = MemoryDisk(1)
    disk.put(f"/m/{QUORUM_STATE}", b'{"leaderId":2,"leaderEpoch":7,"votedId":-1,"data_version":1}')
    assert read_election(disk, "/m") == ElectionState(7, 2)


# ------------------------------------------------------------------ formatting


def controller(tmp_path: Path, **settings: str) -> Config:
    return Config.load(
        {
            "process.roles": "controller",
            "node.id": "1",
            "listeners": "CONTROLLER://127.0.0.1:19193",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:19193",
            "log.dirs": str(tmp_path / "logs"),
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )


def formatted(config: Config, **words: Any) -> FormatResult:
    clock = SimpleNamespace(now=lambda: Now(0.0, 1))
    return format_directories(OsDisk(), cast(Any, clock), Chance(), FormatPlan.of(config, CLUSTER, **words))


@pytest.mark.parametrize(("node_id", "own"), [("1", D1), ("2", D2), ("3", None)])
def test_a_node_among_the_first_controllers_takes_the_directory_id_it_was_given(
    tmp_path: Path, node_id: str, own: Uuid | None
) -> None:
    """K175: any other makes one of its own; both get the same first voters."""
    result = formatted(controller(tmp_path, node_id=node_id), initial_controllers=TWO)
    [directory_id] = result.directory_ids.values()
    assert directory_id == own if own else directory_id not in (D1, D2)
    content = read_snapshot((tmp_path / "logs" / "__cluster_metadata-0" / FIRST).read_bytes())
    [voters] = [entry for entry in content.entries if isinstance(entry, VotersEntry)]
    assert [voter.key for voter in voters.voters] == [ReplicaKey(1, D1), ReplicaKey(2, D2)]


def test_a_controller_that_waits_to_be_told_has_no_first_snapshot(tmp_path: Path) -> None:
    """K176."""
    formatted(controller(tmp_path), no_initial_controllers=True)
    assert not (tmp_path / "logs" / "__cluster_metadata-0" / FIRST).exists()


@pytest.mark.parametrize(
    ("settings", "words", "message"),
    [
        pytest.param({"controller_quorum_voters": "1@h:1"}, {"standalone": True}, "fixes them", id="K177"),
        pytest.param(
            {"controller_quorum_voters": "1@h:1"}, {"initial_controllers": TWO}, "fixes them", id="K177 -I"
        ),
        pytest.param({}, {}, "who votes first", id="K178"),
        pytest.param(
            {}, {"standalone": True, "features": {"kraft.version": 0}}, "does not fit", id="K180 dynamic"
        ),
        pytest.param(
            {"controller_quorum_voters": "1@h:1"},
            {"features": {"kraft.version": 1}},
            "does not fit",
            id="K180 static",
        ),
        pytest.param(
            {}, {"standalone": True, "features": {"no.such": 1}}, "unknown feature", id="K181 unknown"
        ),
        pytest.param(
            {},
            {"standalone": True, "features": {"metadata.version": 999}},
            "out of range|unknown",
            id="K181 unstable",
        ),
        pytest.param(
            {},
            {"standalone": True, "release": "4.3", "features": {"metadata.version": 30}},
            "given twice",
            id="K181 both",
        ),
    ],
)
def test_a_format_that_contradicts_itself_is_refused_before_anything_is_written(
    tmp_path: Path, settings: dict[str, str], words: dict[str, Any], message: str
) -> None:
    """K177, K178, K180, K181."""
    if settings:
        settings = {**settings, "controller_quorum_bootstrap_servers": ""}
    with pytest.raises(ConfigError, match=message):
        formatted(controller(tmp_path, **settings), **words)
    assert not (tmp_path / "logs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"1:127.0.0.1:1:{D1}", "a part is missing"),
        (f"x@127.0.0.1:1:{D1}", "is not id@host:port"),
        (f"-1@127.0.0.1:1:{D1}", "out of range"),
        (f"1@127.0.0.1:port:{D1}", "is not id@host:port"),
        (f"1@127.0.0.1:70000:{D1}", "out of range"),
        ("1@127.0.0.1:1:short", "is not id@host:port"),
        (f"1@127.0.0.1:1:{D1},1@127.0.0.1:2:{D2}", "occurs twice"),
        (f"1@127.0.0.1:1:{D1},2@127.0.0.1:2:{D1}", "occurs twice"),
        ("", "a part is missing"),
    ],
)
def test_a_first_controller_that_cannot_be_read_is_named(text: str, message: str) -> None:
    """K182."""
    with pytest.raises(ConfigError, match=message):
        parse_initial_controllers(text, "CONTROLLER")


def test_first_controllers_may_have_addresses_in_brackets() -> None:
    """K182."""
    voters = parse_initial_controllers(TWO, "CONTROLLER")
    assert [str(voter.endpoints[0].host) for voter in voters] == ["127.0.0.1", "::1"]


# ------------------------------------------------------------------ commands


def file_of(tmp_path: Path, **settings: str) -> Path:
    """A controller's property file."""
    config = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:19193",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:19193",
        "log.dirs": str(tmp_path / "logs"),
        **{name.replace("_", "."): value for name, value in settings.items()},
    }
    path = tmp_path / "controller.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in config.items()))
    return path


def test_info_lists_what_is_wrong_with_each_directory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K183: one formatted, one missing, one of another cluster."""
    logs, other = tmp_path / "logs", tmp_path / "other"
    properties = file_of(tmp_path, log_dirs=f"{logs},{tmp_path / 'missing'},{other}")
    formatted(controller(tmp_path), standalone=True)
    assert main(["storage", "info", "-c", str(file_of(tmp_path))]) == 0
    other.mkdir()
    (other / "meta.properties").write_text(f"version=1\ncluster.id=another\nnode.id=1\ndirectory.id={D2}\n")
    capsys.readouterr()
    file_of(tmp_path, log_dirs=f"{logs},{tmp_path / 'missing'},{other}")
    assert main(["storage", "info", "-c", str(properties)]) == 1
    said = capsys.readouterr().out
    assert "Found problem" in said and "missing" in said and str(other) in said


@pytest.mark.parametrize(
    "settings",
    [{"process.roles": "broker"}, {"node.id": ""}, {"log.dirs": "nowhere"}, {"listeners": "OTHER://:1"}],
)
def test_a_controller_to_be_added_is_checked_before_anything_is_sent(
    tmp_path: Path, settings: dict[str, str]
) -> None:
    """K185: role, id, directory, listeners."""
    properties = {
        line.partition("=")[0]: line.partition("=")[2] for line in file_of(tmp_path).read_text().splitlines()
    }
    with pytest.raises(ConfigError):
        quorum.new_controller({**properties, **settings})


def test_a_dry_run_says_so_when_nobody_is_there_to_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """K185: unlike Apache Kafka's, ours asks the leader's own guards, which nobody at that address does."""
    formatted(controller(tmp_path), standalone=True)
    properties = str(file_of(tmp_path))
    at = ["quorum", "--bootstrap-controller", "127.0.0.1:1", "--command-config", properties]
    for change in (["add-controller"], ["remove-controller", "-i", "1", "-d", str(D1)]):
        assert main([*at, *change, "--dry-run"]) == 3
        said = capsys.readouterr()
        assert "127.0.0.1:1" in said.err and "next: " in said.err
        assert not said.out


def test_a_quorum_is_described_by_leader_lag_and_role() -> None:
    """K186."""
    rows = [
        QuorumReplica(i, key_of(i).directory_id, end, 1000, 1000, (f"CONTROLLER://n{i}:1",))
        for i, end in ((1, 36), (2, 30), (4, 6))
    ]
    told = QuorumDescription("cluster", 1, 2, 34, tuple(rows[:2]), tuple(rows[2:]))
    status = status_lines(told)
    assert status[1].split() == ["LeaderId:", "1"] and status[4].split() == ["MaxFollowerLag:", "30"]
    roles = [line.split()[-1] for line in replication_lines(told, None)]
    assert roles[1:] == ["Leader", "Follower", "Observer"]


def test_describe_is_asked_for_one_of_two_things() -> None:
    """K186: status and replication at once, or no server at all, is a mistake of the caller."""
    parser = ArgumentParser()
    quorum.add_arguments(parser)
    for words in ("describe --status --replication", "describe"):
        args = parser.parse_args(["--bootstrap-server", "127.0.0.1:1", *words.split()])
        with pytest.raises((ConfigError, SystemExit)):
            quorum.run(args)
