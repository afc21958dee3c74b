"""`barnabas quorum describe --detail` as an operator reads it."""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.quorum import detail as printed
from barnabas.cli.quorum.detail import bootstrap_line, detail_lines, wait_for_target
from barnabas.client.admin.described import QuorumDescription, QuorumDetail, QuorumReplica
from barnabas.client.admin.quorum_detail import could_vote
from barnabas.errors import KafkaError
from barnabas.model import Uuid


def replica(n: int, end: int = 36, caught_up: int = 1000) -> QuorumReplica:
    return QuorumReplica(n, Uuid.of(1, n), end, caught_up, caught_up, (f"CONTROLLER://h{n}:9093",))


def quorum(*voters: QuorumReplica, observers: tuple[QuorumReplica, ...] = ()) -> QuorumDescription:
    return QuorumDescription("5L6g3nShT-eMCtK--X86sw", 1, 2, 34, voters, observers)


def test_a_change_shows_the_set_before_it_the_target_and_what_it_waits_for() -> None:
    detail = QuorumDetail(
        quorum(replica(1), replica(2, 30, 400), replica(4)),
        target=(1, 2, 4, 5),
        steps_left=1,
        committed=(1, 2),
        could_be_voters=(5,),
        waiting=("add 5: it lags 9 records behind",),
        errors=((2, "cannot connect to h2:9093: Connection refused"),),
        survivable=1,
    )
    assert detail_lines(detail) == [
        "Leader:     1, epoch 2, committed up to 34",
        "Voters:     1, 2, 4; not committed yet, before: 1, 2",
        "Bears:      1 more failure of a voter now",
        "Could vote: 5",
        "Target:     1, 2, 4, 5; 1 step left",
        "Waits:      add 5: it lags 9 records behind",
        "NODE  ROLE    LAG  LAG_MS  ENDPOINTS             LAST_ERROR",
        "1     leader  0    0       CONTROLLER://h1:9093  -",
        "2     voter   6    600     CONTROLLER://h2:9093  cannot connect to h2:9093: Connection refused",
        "4     voter   0    0       CONTROLLER://h4:9093  -",
    ]


def test_without_a_leader_it_says_who_is_missing_and_what_to_do() -> None:
    lines = detail_lines(
        QuorumDetail(
            None, waiting=("no leader for 9.0 s: voters 2 and 3 do not answer (refused)",), leaderless_ms=9000
        )
    )
    assert lines[0] == "Leader:     none"
    assert lines[1] == "Waits:      no leader for 9.0 s: voters 2 and 3 do not answer (refused)"
    assert "quorum recover" in lines[-1]


def test_without_a_leader_the_nodes_own_next_step_stands_in_the_place_of_recovery() -> None:
    waiting = ("no leader for 9.0 s: the voter sets differ", "next: give all controllers one list")
    lines = detail_lines(QuorumDetail(None, waiting=waiting, leaderless_ms=9000))
    assert lines[1:] == [
        "Waits:      no leader for 9.0 s: the voter sets differ",
        "  next: give all controllers one list",
    ]


def test_an_even_set_says_that_it_bears_no_more() -> None:
    detail = QuorumDetail(quorum(replica(1), replica(2)), survivable=0)
    assert detail_lines(detail)[2] == (
        "Bears:      0 more failures of a voter now; 2 voters bear no more than 1 would"
    )


def fetched(n: int, ago_ms: int) -> QuorumReplica:
    return replica(n)._replace(last_fetch=10_000 - ago_ms)


@pytest.mark.parametrize(
    ("ago", "bears"),
    [((400, 1900), "1 more failure"), ((400, 2100), "0 more failures"), ((9999, 10_001), "0")],
)
def test_where_apache_kafka_leads_it_is_counted_who_fetched_lately(ago: tuple[int, int], bears: str) -> None:
    voters = (fetched(1, 0), fetched(2, ago[0]), fetched(3, ago[1]))
    lines = detail_lines(QuorumDetail(quorum(*voters), could_be_voters=(4,)))
    assert lines[0].endswith("runs Apache Kafka")
    assert lines[2].startswith(f"Bears:      {bears}")
    assert lines[3] == "Could vote: 4"


def test_where_no_controller_of_apache_kafka_is_reached_it_is_unknown_who_could_vote() -> None:
    lines = detail_lines(QuorumDetail(quorum(fetched(1, 0)), could_be_voters=None))
    assert lines[3] == "Could vote: unknown: ask a controller (-C HOST:PORT)"


def test_only_observers_that_fetch_and_are_controllers_could_vote() -> None:
    """A broker observes the quorum, too."""
    described = quorum(fetched(1, 0), observers=(fetched(4, 500), fetched(5, 500), fetched(6, 60_000)))
    assert could_vote(described, {1, 4, 6}) == (4,)
    assert could_vote(described, None) is None


def test_watch_does_not_print_again_for_every_record() -> None:
    one, other = (
        detail_lines(QuorumDetail(quorum(replica(1, n), replica(2, n - 1))), moving=False) for n in (36, 90)
    )
    assert one == other


def test_after_a_move_the_new_bootstrap_line_can_be_pasted() -> None:
    line = bootstrap_line(QuorumDetail(quorum(replica(1), replica(2))))
    assert line == "controller.quorum.bootstrap.servers=h1:9093,h2:9093"


class Looks:
    """What the quorum says, one look after the other; the last one again and again."""

    def __init__(self, *looks: QuorumDetail | BaseException) -> None:
        self.looks = list(looks)

    def quorum_detail(self) -> QuorumDetail:
        look = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(look, BaseException):
            raise look
        return look


MOVING = QuorumDetail(
    quorum(replica(1), replica(4)), target=(4,), steps_left=1, waiting=("remove 1",), survivable=0
)


def waited(monkeypatch: pytest.MonkeyPatch, *looks: QuorumDetail | BaseException) -> None:
    monkeypatch.setattr(printed, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: None))
    admin: Any = Looks(*looks)
    wait_for_target(argparse.Namespace(timeout=60, json=False), admin, [4])


def test_who_waits_for_a_target_is_told_when_it_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    just_elected = QuorumDetail(quorum(replica(1), replica(4)), survivable=0)
    waited(monkeypatch, MOVING, just_elected, MOVING, QuorumDetail(quorum(replica(4)), survivable=0))
    assert capsys.readouterr().out.splitlines() == [
        "1 to go, remove 1",
        "controller.quorum.bootstrap.servers=h4:9093",
    ]


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        (
            QuorumDetail(quorum(replica(1), replica(4)), survivable=0),
            "the target 4 was given up before it was reached; the voters are 1, 4",
        ),
        (
            QuorumDetail(quorum(replica(1), replica(4)), target=(1, 5), survivable=0),
            "somebody set the target 1, 5 in place of 4; the voters are 1, 4",
        ),
        (
            QuorumDetail(quorum(replica(1), replica(4))),
            "node 1 leads now and runs Apache Kafka, which takes no target; the voters are 1, 4",
        ),
    ],
    ids=["cancelled", "another target", "Apache Kafka leads"],
)
def test_a_target_that_is_in_force_no_more_is_not_said_to_be_reached(
    ends: QuorumDetail, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(KafkaError) as error:
        waited(monkeypatch, MOVING, ends)
    assert error.value.message == reason and error.value.next_step


def test_who_stops_to_wait_is_told_that_the_target_stays(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        waited(monkeypatch, MOVING, KeyboardInterrupt())
    assert "The target 4 stays in force" in capsys.readouterr().err
