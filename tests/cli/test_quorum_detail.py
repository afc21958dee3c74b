"""`barnabas quorum describe --detail` as an operator reads it."""

from __future__ import annotations

from barnabas.cli.quorum.detail import bootstrap_line, detail_lines
from barnabas.client.admin.described import QuorumDescription, QuorumDetail, QuorumReplica
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


def test_an_even_set_says_that_it_bears_no_more() -> None:
    detail = QuorumDetail(quorum(replica(1), replica(2)), survivable=0)
    assert detail_lines(detail)[2] == (
        "Bears:      0 more failures of a voter now; 2 voters bear no more than 1 would"
    )


def test_a_leader_of_apache_kafka_says_less() -> None:
    assert "unknown" in detail_lines(QuorumDetail(quorum(replica(1))))[2]


def test_watch_does_not_print_again_for_every_record() -> None:
    one, other = (
        detail_lines(QuorumDetail(quorum(replica(1, n), replica(2, n - 1))), moving=False) for n in (36, 90)
    )
    assert one == other


def test_after_a_move_the_new_bootstrap_line_can_be_pasted() -> None:
    line = bootstrap_line(QuorumDetail(quorum(replica(1), replica(2))))
    assert line == "controller.quorum.bootstrap.servers=h1:9093,h2:9093"
