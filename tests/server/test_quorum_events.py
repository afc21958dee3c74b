"""What of the core's events an operator sees without looking closely."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from barnabas.model import Endpoint, ReplicaKey, Uuid
from barnabas.raft.describe import Description
from barnabas.raft.effects import Event
from barnabas.raft.voters import Voter, VoterSet
from barnabas.server.kraft.quorum_events import missing, tell, tell_opened, way_out
from barnabas.server.kraft.storage import Found


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("raft.snapshot.rejected", logging.WARNING),
        ("raft.snapshot.unreadable", logging.ERROR),
        ("raft.incarnation.refused", logging.WARNING),
        ("raft.incarnation.foreign", logging.WARNING),
        ("raft.incarnation.superseded", logging.WARNING),
        ("raft.vote", logging.DEBUG),
    ],
)
def test_what_needs_a_hand_is_loud_and_the_rest_is_for_debugging(
    name: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        tell(Event(name, (("node", 3), ("own", 1))))
    assert [record.levelno for record in caplog.records] == [level]


def test_a_voter_without_the_controller_role_is_named_with_a_next_step(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        tell(Event("raft.voter.without-role", (("voter", ReplicaKey(3, Uuid.of(1, 1))),)))
    said = caplog.records[0].fields  # type: ignore[attr-defined]
    assert said["voter"].id == 3 and "remove-controller -i 3" in said["next"]


def _seen(voters: VoterSet, **more: object) -> Description:
    return Description(False, None, 0, -1, voters, **more)  # type: ignore[arg-type]


def test_who_waits_for_its_first_leader_names_the_bootstrap_servers_and_their_errors() -> None:
    seen = _seen(VoterSet(), servers=((Endpoint("CONTROLLER", "c1", 9093), "connection refused"),))
    assert missing(seen) == "bootstrap server c1:9093 is of no help (connection refused)"
    assert "controller.quorum.bootstrap.servers" in way_out(seen)


def test_voter_sets_that_differ_are_told_with_both_disks_instead_of_that_all_answer() -> None:
    ours = [ReplicaKey(id_, Uuid.of(1, id_)) for id_ in (1, 2)]
    theirs = [ReplicaKey(id_, Uuid.of(2, id_)) for id_ in (1, 2)]
    seen = _seen(
        VoterSet.of(Voter(key, ()) for key in ours),
        errors=((2, "another disk answers"),),
        differing=((theirs[1], theirs[0]),),
    )
    assert missing(seen) == (
        f"the voter sets differ: here the voters are {ours[0]} and {ours[1]}, "
        f"but {theirs[1]} asks {theirs[0]} for its vote"
    )
    assert "--initial-controllers" in way_out(seen)


@pytest.mark.parametrize(("version", "said"), [(0, False), (1, True)])
def test_voters_of_the_file_that_the_log_has_replaced_are_told_with_the_line_to_set(
    version: int, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    static = VoterSet.of([Voter(ReplicaKey(1, Uuid.of(0, 0)), (Endpoint("CONTROLLER", "c1", 9093),))])
    recovery = SimpleNamespace(bytes_cut=0)
    store = SimpleNamespace(
        log=SimpleNamespace(recovery=recovery, log_start_offset=0, log_end_offset=9),
        found=Found(),
        log_view=SimpleNamespace(voters=static, kraft_version=version),
    )
    with caplog.at_level(logging.WARNING):
        tell_opened(store, static)  # type: ignore[arg-type]
    lines = [record.fields["next"] for record in caplog.records]  # type: ignore[attr-defined]
    assert lines == ["replace it with controller.quorum.bootstrap.servers=c1:9093"] * said
