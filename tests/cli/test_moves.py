"""Moving partitions from the command line: plans, what is printed, and what is refused, against a double."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from barnabas.cli.main import main
from barnabas.cli.moves import placed
from barnabas.client.admin import admin as clients
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.described import ClusterDescription
from barnabas.client.admin.moves import Move, ReplicaEnd
from barnabas.client.metadata import Broker, PartitionInfo, TopicInfo
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ZERO_UUID, TopicPartition


class Double:
    """A cluster of brokers 1 to 4 (5 is fenced) with `orders` on 1, 2 and 2, 3."""

    def __init__(self, *_: Any, **__: Any) -> None:
        self.asked: list[Mapping[TopicPartition, Sequence[int] | None]] = []
        self.refuse: dict[TopicPartition, KafkaError] = {}
        self.moving: list[list[Move]] = []
        self.replicas = {"orders": [(1, 2), (2, 3)]}
        self.hears: list[Any] = []
        """Replicas of orders-0, one after the other, as the broker that is asked says them; the last stay."""
        self.elected: dict[TopicPartition, KafkaError | None] = {}
        self.elections: list[Any] = []
        self.left: dict[TopicPartition, list[ReplicaEnd] | KafkaError] = {}

    def __enter__(self) -> Double:
        return self

    def __exit__(self, *_: object) -> None: ...

    def topics(self, *, internal: bool = False) -> list[TopicInfo]:
        if self.hears:
            self.replicas["orders"][0] = self.hears.pop(0)
        return [self.describe_topic(name) for name in self.replicas]

    def describe_topic(self, name: str) -> TopicInfo:
        if name not in self.replicas:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name}")
        rows = {
            number: PartitionInfo(number, replicas[0], 0, replicas, replicas)
            for number, replicas in enumerate(self.replicas[name])
        }
        return TopicInfo(name, ZERO_UUID, rows)

    def describe_cluster(self, *, fenced: bool = False) -> ClusterDescription:
        brokers = tuple(Broker(id_, "127.0.0.1", 9090 + id_, None) for id_ in (1, 2, 3, 4, *([5] * fenced)))
        return ClusterDescription("cluster", 1, brokers, (5,) if fenced else ())

    def moves(self) -> list[Move]:
        return self.moving.pop(0) if len(self.moving) > 1 else self.moving[0] if self.moving else []

    def move(self, plan: Mapping[TopicPartition, Sequence[int] | None]) -> dict[TopicPartition, KafkaError]:
        self.asked.append(plan)
        return self.refuse

    def recoverable(self, partitions: Any) -> dict[TopicPartition, list[ReplicaEnd] | KafkaError]:
        led = KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "it has a leader")
        return {where: self.left.get(where, led) for where in partitions}

    def elect_leaders(self, partitions: Any, *, unclean: bool) -> dict[TopicPartition, KafkaError | None]:
        self.elections.append((partitions, unclean))
        return self.elected


class Shell:
    def __init__(self, double: Double, capsys: pytest.CaptureFixture[str]) -> None:
        self.double = double
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, line: str) -> int:
        code = main(line.split())
        self.out, self.err = self._capsys.readouterr()
        return code


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    double = Double()
    monkeypatch.setattr(clients, "Admin", lambda *_, **__: double)
    return Shell(double, capsys)


ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def test_a_plan_is_shown_and_nothing_is_done(shell: Shell) -> None:
    assert shell("topics reassign orders --partition 0 --replicas 4,2") == 0
    assert shell.out.splitlines() == [
        "TOPIC   PARTITION  REPLICAS  BECOMES",
        "orders          0  1,2       4,2",
        "A plan: 1 partition, 1 replica to copy. Add --execute to do it.",
    ]
    assert shell.double.asked == []


def test_a_plan_is_done_and_watched_to_its_end(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    moving = Move("orders", 0, (4, 2, 1), (4,), (1,))
    shell.double.moving = [[], [], [moving], [moving], []]
    shell.double.hears = [(1, 2), (4, 2, 1), (4, 2, 1), (4, 2)]
    assert shell("topics reassign orders --partition 0 --replicas 4,2 --execute --wait") == 0
    assert shell.double.asked == [{ORDERS_0: [4, 2]}]
    assert not shell.double.hears, "it returned while the broker did not know yet that the move is over"
    assert shell.out.splitlines()[2:] == [
        "Began: 1 partition, 1 replica to copy.",
        "0 of 1 moved",
        "1 of 1 moved",
    ]


def test_a_move_that_ends_while_one_looks_counts_as_where_it_went() -> None:
    double = Double()
    double.moving, double.hears = [[Move("orders", 0, (4, 2, 1), (4,), (1,))], []], [(4, 2, 1)]
    assert placed(cast("Admin", double))[ORDERS_0] == [4, 2]


def test_what_is_refused_is_said_by_partition_and_is_the_exit_code(shell: Shell) -> None:
    shell.double.refuse = {ORDERS_0: KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "broker 4 is gone")}
    assert shell("topics reassign orders --partition 0 --replicas 4,2 --execute") == 1
    assert shell.out.splitlines()[1:] == [
        "orders          0  1,2       4,2      INVALID_REPLICA_ASSIGNMENT",
        "Began, with 1 refused: 1 partition.",
    ]


def test_topics_are_spread_over_brokers_and_the_plan_and_its_undoing_are_saved(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    assert shell(f"topics reassign orders --brokers 3,4 --save {file}") == 0
    plan = {row["partition"]: row["replicas"] for row in json.loads(file.read_text())["partitions"]}
    assert {frozenset(replicas) for replicas in plan.values()} == {frozenset({3, 4})}
    assert {replicas[0] for replicas in plan.values()} == {3, 4}
    undo = json.loads((tmp_path / "plan.json.undo").read_text())
    assert [row["replicas"] for row in undo["partitions"]] == [[1, 2], [2, 3]]
    assert shell(f"topics reassign --plan {file} --execute") == 0
    assert shell.double.asked == [{TopicPartition("orders", n): plan[n] for n in (0, 1)}]


@pytest.mark.parametrize(
    "line",
    [
        "topics reassign --execute",
        "topics reassign --brokers 1,2",
        "topics reassign orders --replicas 1,2",
        "topics reassign orders --brokers one",
        "topics reassign orders --partition 9 --replicas 1",
        "topics elect-leaders --partition 1",
        "topics elect-leaders orders flights --partition 1",
        "cluster add-brokers 5",
        "cluster remove-brokers 1 2 3 4",
        "topics reassign orders --brokers 1",
    ],
)
def test_what_makes_no_sense_is_wrong_usage(shell: Shell, line: str) -> None:
    assert shell(line) == 2
    assert shell.err.startswith("error: ")
    assert shell.double.asked == []


@pytest.mark.parametrize(
    "line",
    [
        "topics reassign orders --partition 0 --replicas 1,7",
        "topics reassign orders --brokers 3,7 --execute",
        "cluster remove-brokers 7",
    ],
)
def test_a_broker_that_does_not_exist_is_named_with_those_that_do(shell: Shell, line: str) -> None:
    assert shell(line) == 4
    assert shell.err.startswith("error: there is no broker 7; there are 1, 2, 3, 4, 5 ")
    assert shell.double.asked == []


def test_replicas_that_name_a_broker_twice_are_refused(shell: Shell) -> None:
    assert shell("topics reassign orders --partition 0 --replicas 3,3 --execute") == 2
    assert "next: name each broker once, of 1,2,3,4,5" in shell.err
    assert shell.double.asked == []


def test_no_leader_is_elected_of_a_partition_that_is_not_there(shell: Shell) -> None:
    assert shell("topics elect-leaders orders --partition 7") == 4
    assert shell.err.startswith("error: topic orders has no partition 7 ")
    assert shell.double.elections == []


def test_a_file_that_is_no_plan_is_refused_with_what_a_plan_is(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"partitions": [{"topic": "orders"}]}')
    assert shell(f"topics reassign --plan {file}") == 2
    assert "next: write {" in shell.err


def test_what_moves_now_is_listed_and_turned_back(shell: Shell) -> None:
    shell.double.moving = [[Move("orders", 0, (4, 2, 1), (4,), (1,))]]
    assert shell("topics reassign") == 0
    assert shell.out.splitlines() == [
        "TOPIC   PARTITION  REPLICAS  TO-COME  TO-GO",
        "orders          0  4,2             4      1",
    ]
    assert shell("topics reassign --json") == 0
    assert json.loads(shell.out) == {
        "version": 1,
        "kind": "topics.moving",
        "moving": [{"topic": "orders", "partition": 0, "replicas": [4, 2], "adding": [4], "removing": [1]}],
    }
    assert shell("topics reassign --cancel other") == 0
    assert shell.out == "Nothing moves.\n"
    assert shell("topics reassign --cancel") == 0
    assert shell.out == "Turned back: 1 of 1.\n"
    assert shell.double.asked == [{ORDERS_0: None}]


def test_a_broker_that_comes_gets_its_share(shell: Shell) -> None:
    assert shell("cluster add-brokers 4 --json") == 0
    document = json.loads(shell.out)
    assert (document["kind"], document["executed"]) == ("topics.reassigned", False)
    assert sum(4 in row["replicas"] for row in document["reassigned"]) == 1


def test_a_broker_that_goes_is_left_empty(shell: Shell) -> None:
    assert shell("cluster remove-brokers 2 --execute") == 0
    (plan,) = shell.double.asked
    assert plan.keys() == {ORDERS_0, ORDERS_1}
    assert all(2 not in (replicas or ()) for replicas in plan.values())
    assert shell.out.splitlines()[-1] == (
        "When all is moved: stop 2, then `barnabas cluster unregister --id` for each."
    )


def test_a_broker_that_is_down_and_was_not_named_keeps_its_replicas(shell: Shell) -> None:
    shell.double.replicas = {"orders": [(5, 1), (2, 3)]}
    assert shell("cluster remove-brokers 2 --execute") == 0
    (plan,) = shell.double.asked
    assert all(5 in (replicas or ()) for where, replicas in plan.items() if where == ORDERS_0)
    assert 2 not in (plan[ORDERS_1] or ())
    assert shell.out.splitlines()[0] == (
        "Not serving, and left as they are: 5. To move what lies there, name them too."
    )
    assert shell("cluster remove-brokers 5 --execute") == 0
    assert 5 not in (shell.double.asked[1][ORDERS_0] or ())


def test_leaders_are_elected_and_told(shell: Shell) -> None:
    shell.double.elected = {ORDERS_0: None, ORDERS_1: KafkaError(ErrorCode.ELECTION_NOT_NEEDED, "")}
    assert shell("topics elect-leaders orders") == 0
    assert shell.out == "Elected 1 leader; 0 could not be.\n"
    assert shell.double.elections == [([ORDERS_0, ORDERS_1], False)]
    shell.double.elected = {ORDERS_0: KafkaError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "")}
    assert shell("topics elect-leaders --unclean") == 1
    assert shell.double.elections[-1] == (None, True)
    assert shell.out.splitlines() == [
        "Elected 0 leaders; 1 could not be.",
        "TOPIC   PARTITION  ERROR",
        "orders          0  PREFERRED_LEADER_NOT_AVAILABLE",
    ]


def test_what_is_left_of_a_partition_is_told_before_it_is_recovered(shell: Shell) -> None:
    assert shell("topics recover orders") == 0 and "Every partition has a leader." in shell.out
    where = TopicPartition("orders", 1)
    shell.double.left[where] = [
        ReplicaEnd(2, False, False, False, -1, -1),
        ReplicaEnd(3, True, True, True, 4, 120),
        ReplicaEnd(4, True, False, False, 4, 90),
    ]
    assert shell("topics recover orders 1") == 0 and shell.double.elections == []
    lines = [line.split() for line in shell.out.splitlines()]
    assert any(line[:4] == ["orders", "1", "2", "away"] for line in lines)
    assert any(line[:7] == ["orders", "1", "3", "lacks", "records", "4", "120"] for line in lines)
    shell.double.elected = {where: None}
    assert shell("topics recover orders --yes") == 0
    assert shell.double.elections == [([where], True)] and "Elected 1 leader" in shell.out


def test_only_partitions_without_a_leader_are_recovered(shell: Shell) -> None:
    assert shell("topics recover orders 0 --yes") == 0 and shell.double.elections == []
    assert shell("topics recover orders 7 --yes") == 4 and shell.double.elections == []


def test_a_controller_that_does_not_say_what_is_left_is_named(shell: Shell) -> None:
    def refuse(partitions: Any) -> Any:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "there is no election of type 101")

    shell.double.recoverable = refuse  # type: ignore[method-assign]
    assert shell("topics recover orders") != 0
    assert "Apache Kafka" in shell.err and "--unclean" in shell.err
