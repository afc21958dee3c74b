"""The quorum's lines are Kafka's, for quorums that one node cannot show."""

from __future__ import annotations

import argparse
from contextlib import nullcontext

import pytest

from barnabas.cli.quorum import target
from barnabas.cli.quorum.quorum import replication_lines, status_lines
from barnabas.cli.quorum.target import reassign
from barnabas.client.admin.described import QuorumDescription, QuorumReplica
from barnabas.client.admin.quorum import advice
from barnabas.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.model import Uuid


def replica(n: int, end: int, fetch: int, caught_up: int | None = None) -> QuorumReplica:
    endpoints = (f"CONTROLLER://127.0.0.1:19{n}93",)
    return QuorumReplica(
        n, Uuid.parse(f"AAAAAAAAQAAAAAAAAAA{'ABCDE'[n]}AA"), end, fetch, caught_up or fetch, endpoints
    )


def quorum(*, leader: int = 1, observers: tuple[QuorumReplica, ...] = ()) -> QuorumDescription:
    voters = (replica(1, 36, 1795183024356), replica(2, 36, 1795183023981), replica(3, 36, 1795183023966))
    return QuorumDescription("5L6g3nShT-eMCtK--X86sw", leader, 2, 34, voters, observers)


def test_status_has_kafkas_eight_lines() -> None:
    """Printed by kafka-metadata-quorum 4.3.1 of three voters."""
    assert status_lines(quorum()) == [
        "ClusterId:              5L6g3nShT-eMCtK--X86sw",
        "LeaderId:               1",
        "LeaderEpoch:            2",
        "HighWatermark:          34",
        "MaxFollowerLag:         0",
        "MaxFollowerLagTimeMs:   0",
        "CurrentVoters:          ["
        '{"id": 1, "directoryId": "AAAAAAAAQAAAAAAAAAABAA", "endpoints": ["CONTROLLER://127.0.0.1:19193"]}, '
        '{"id": 2, "directoryId": "AAAAAAAAQAAAAAAAAAACAA", "endpoints": ["CONTROLLER://127.0.0.1:19293"]}, '
        '{"id": 3, "directoryId": "AAAAAAAAQAAAAAAAAAADAA", "endpoints": ["CONTROLLER://127.0.0.1:19393"]}]',
        "CurrentObservers:       []",
    ]


def test_replication_has_kafkas_columns() -> None:
    """Printed by kafka-metadata-quorum 4.3.1 of three voters."""
    assert replication_lines(quorum(), None) == [
        "NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t",
        "1     \tAAAAAAAAQAAAAAAAAAABAA\t36          \t0  \t1795183024356     \t1795183024356        \tLeader  \t",
        "2     \tAAAAAAAAQAAAAAAAAAACAA\t36          \t0  \t1795183023981     \t1795183023981        \tFollower\t",
        "3     \tAAAAAAAAQAAAAAAAAAADAA\t36          \t0  \t1795183023966     \t1795183023966        \tFollower\t",
    ]


def test_ages_are_for_people_and_unknown_stays_minus_one() -> None:
    late = QuorumReplica(4, Uuid(bytes(16)), 30, -1, -1)
    lines = replication_lines(quorum(observers=(late,)), 1795183024374)
    assert "18 ms ago         \t18 ms ago            \tLeader" in lines[1]
    assert lines[4].split() == ["4", "AAAAAAAAAAAAAAAAAAAAAA", "30", "6", "-1", "-1", "Observer"]


def test_an_observer_has_no_endpoints_and_no_zero_directory() -> None:
    late = QuorumReplica(4, Uuid(bytes(16)), 30, 5, 5)
    lines = status_lines(quorum(observers=(late,)))
    assert lines[4:6] == ["MaxFollowerLag:         6", "MaxFollowerLagTimeMs:   1795183024351"]
    assert lines[7] == 'CurrentObservers:       [{"id": 4}]'


def test_an_unknown_time_of_the_laggard_is_minus_one() -> None:
    late = QuorumReplica(4, Uuid(bytes(16)), 30, -1, -1)
    assert status_lines(quorum(observers=(late,)))[5] == "MaxFollowerLagTimeMs:   -1"


def test_a_leader_that_removes_itself_leads_as_an_observer() -> None:
    """Apache Kafka's tool ends in a stack trace here."""
    leader = QuorumReplica(9, Uuid(bytes(16)), 38, 5, 5)
    lines = status_lines(quorum(leader=9, observers=(leader,)))
    assert lines[1] == "LeaderId:               9" and lines[4] == "MaxFollowerLag:         2"
    assert lines[7] == 'CurrentObservers:       [{"id": 9}]'


def test_a_leader_that_is_nowhere_is_an_error() -> None:
    with pytest.raises(BarnabasError, match="node 9, is not among"):
        status_lines(quorum(leader=9))


def test_a_dry_run_of_a_cancellation_does_not_wait() -> None:
    args = argparse.Namespace(target=None, cancel=True, wait=True, dry_run=True)
    with pytest.raises(ConfigError, match="--target or --cancel"):
        reassign(args)


def test_a_cancellation_may_wait_for_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []
    monkeypatch.setattr(target, "_go", lambda args, admin, ids: asked.append(ids) or "")
    monkeypatch.setattr("barnabas.client.admin.admin.Admin", lambda *_, **__: nullcontext())
    monkeypatch.setattr(target, "bootstrap_of", lambda args: "")
    monkeypatch.setattr(target, "security_of", lambda args: None)
    args = argparse.Namespace(target=None, cancel=True, wait=True, dry_run=False, json=False, timeout=1.0)
    assert reassign(args) == 0
    assert asked == [None]


@pytest.mark.parametrize(("voters", "warned"), [(1, False), (2, True), (3, False), (4, True)])
def test_an_even_number_of_voters_is_warned_of_however_it_came_about(
    voters: int, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    target.warn_of_even_number(voters)
    assert (f"warning: {voters} voters" in capsys.readouterr().err) is warned


def test_the_advice_for_a_new_disk_and_for_the_last_voter_names_a_command() -> None:
    assert "quorum replace --node" in advice(ErrorCode.DUPLICATE_VOTER)
    assert "add-controller" in advice(ErrorCode.VOTER_NOT_FOUND)
