"""Three Apache Kafka nodes become three of ours under traffic, and again Kafka's: docs/move-from-kafka.md, typed.

Controllers, partitions, groups of both protocols and transactions move, some of these open all the while; nothing
acknowledged is lost or there twice.  `make move ROUNDS=10` does it more often, with a table, and Kafka by Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.kafka_node import KafkaNode
from tests.compat.moving.__main__ import table
from tests.compat.moving.clients import Ledger
from tests.compat.moving.nodes import FIRST, SETTINGS, Six, typed
from tests.compat.moving.rounds import Known, Row, Traffic, complaints
from tests.compat.moving.steps import back, beside, there
from tests.compat.test_quorum_mixed import leading, observed, voters
from tests.server.quorum_processes import Members, eventually, free_ports

pytestmark = [pytest.mark.compat, pytest.mark.timeout(1800)]


@pytest.fixture
def six(apache: Path, tmp_path: Path) -> Iterator[Six]:
    """Three nodes of Apache Kafka with topics, and three that join later."""
    found = Six(apache, tmp_path)
    try:
        found.form()
        yield found
    finally:
        found.close()


def whole(row: Row | None) -> bool:
    print(row)
    return row is not None and row.whole


def test_three_apache_kafka_nodes_become_three_of_ours_and_again_kafkas_under_traffic(six: Six) -> None:
    traffic = Traffic(six, Known())
    with traffic.during("there"):
        there(six, joined=lambda: refused(six))
        assert "Bears:      1 more failure" in six.typed("quorum describe --detail")
    assert whole(traffic.row)
    with traffic.during("back"):
        back(six)
    assert whole(traffic.row)
    assert complaints(six) == []


def test_the_table_has_a_row_for_each_direction_of_a_round_and_their_medians() -> None:
    gaps = (200, 900, 300)
    found = [
        (number + 1, Row("there", 300, 30_000, 0, number == 2, 0, gap, 900, 2 * gap, 0, 0, 0))
        for number, gap in enumerate(gaps)
    ]
    *_, last, middle = table(found).splitlines()
    assert last == "| 3 | there | 300 | 30000 | 0 | True | 0 | 300 | 900 | 600 | 0 | 0 | 0 |"
    assert middle == "| all 3 | there | 300 | 90000 | 0 | 1 | 0 | 300 | 2700 | 600 | 0 | 0 | 0 |"


def test_a_gap_between_commits_is_also_that_before_the_first_and_after_the_last() -> None:
    assert Ledger(times=[1.0, 4.0, 5.0]).gap(3.0, 8.0) == 3.0
    assert Ledger().gap(3.0, 8.0) == 5.0


def refused(six: Six) -> None:
    """What its leader does not take (a target, a successor, a check beforehand) is said; nothing changes."""
    for line in ("reassign --target 4,5,6", "replace --node 1 --with 4", "transfer-leadership"):
        assert "the leader runs Apache Kafka" in six.typed(f"quorum {line}", code=1)
    assert "cannot check a change" in six.typed("quorum reassign --target 4,5,6 --dry-run", code=1)
    assert "Apache Kafka answers" in six.typed("quorum history", code=1)
    assert "runs Apache Kafka" in six.typed("quorum describe --detail")
    six.voters(*FIRST)


@pytest.mark.slow
def test_apache_kafkas_own_replacement_is_measured_by_the_same_clients(six: Six) -> None:
    traffic = Traffic(six, Known())
    with traffic.during("beside"):
        beside(six)
    assert whole(traffic.row)


def test_a_target_of_kafkas_nodes_alone_says_what_is_left_to_do(apache: Path, tmp_path: Path) -> None:
    """Our leader hands over to the last of them, which knows no target: the command says who still votes."""
    with Members.formed(tmp_path / "ours", 1) as nodes:
        nodes.start()
        nodes.settled([1])
        ours, pair = nodes[1].controller, free_ports(2)
        kafka = KafkaNode(apache, tmp_path / "k", 4, (pair[0], pair[1]), [ours], **SETTINGS)
        kafka.format("--no-initial-controllers")
        nodes.all[4] = kafka.start()
        eventually(lambda: observed(leading([ours]), 4), 90, "Apache Kafka observes")
        said = typed("quorum reassign --target 4 --wait", f"127.0.0.1:{nodes[1].port}", code=1)
        assert "node 4 leads now and runs Apache Kafka, which takes no target; the voters are 1, 4" in said
        assert "`barnabas quorum remove-controller --controller-id 1`" in said
        typed("quorum remove-controller --controller-id 1", f"127.0.0.1:{nodes[1].port}")
        eventually(lambda: (row := leading([kafka.controller])) and voters(row) == [4], 30, "4 votes alone")
