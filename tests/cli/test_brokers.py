"""Brokers that come and go, as an operator types it: real nodes, and what is printed."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.server.quorum_processes import eventually

from barnabas.cli.brokers import moving, unregister
from barnabas.cli.brokers.moving import ended_text
from barnabas.cli.brokers.placement import Placement, byte_rate, duration_text, size_text
from barnabas.client.admin.admin import Admin
from barnabas.client.admin.described import ClusterDescription
from barnabas.client.admin.log_dirs import BrokerDirs
from barnabas.client.admin.moves import Move
from barnabas.client.admin.quorum import unregister_controller
from barnabas.client.admin.throttles import throttle, throttles
from barnabas.client.both.awaited import at_once, awaited
from barnabas.client.metadata import Broker
from barnabas.client.producer import Producer
from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.testing.cluster import Cluster
from barnabas.wire.schemas.brokers import UnregisterControllerResponse


class Operator:
    """Types commands at a cluster of four combined nodes."""

    def __init__(self, kafka: Cluster) -> None:
        self.kafka = kafka
        self.out = self.err = ""

    def __call__(self, line: str) -> int:
        done = subprocess.run(
            [sys.executable, "-m", "barnabas", *line.split()],
            env={**os.environ, "BARNABAS_BOOTSTRAP": self.kafka.bootstrap},
            text=True,
            capture_output=True,
            check=False,
        )
        self.out, self.err = done.stdout, done.stderr
        assert "Traceback" not in self.err
        return done.returncode

    def document(self, line: str) -> Any:
        assert self(line + " --json") == 0, self.err
        return json.loads(self.out)

    def carried(self) -> dict[int, int]:
        """Replicas by broker."""
        rows = self.document("brokers list")["brokers"]
        return {row["id"]: row["replicas"] for row in rows}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = {"controller.quorum.auto.join.enable": "false"}
    with Cluster(settings, nodes=4) as kafka:
        yield kafka


@pytest.fixture
def type_(cluster: Cluster) -> Operator:
    operator = Operator(cluster)
    if operator("brokers add 1 2 3 4 --wait") != 0:
        raise AssertionError(operator.err)
    cluster.clean()
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("orders", partitions=12, replication=3)
    return operator


def test_a_drained_broker_is_empty_gets_nothing_new_and_is_no_voter(type_: Operator) -> None:
    with Producer(type_.kafka.bootstrap) as producer:
        for number in range(300):
            producer.send("orders", f"{number}")
    assert type_("brokers drain 4 --wait") == 0, type_.err
    assert "Node 4 is no voter any more; voters: 1, 2, 3." in type_.out
    assert "  in every node's file: controller.quorum.bootstrap.servers=" in type_.out
    assert type_.out.splitlines()[-2:] == [
        "Broker 4 carries nothing and gets nothing: stop it, then",
        "  barnabas brokers unregister 4",
    ]
    assert type_("topics create later --partitions 9 --replication-factor 3") == 0
    assert type_.carried() == {1: 21, 2: 21, 3: 21, 4: 0}
    with Admin(type_.kafka.bootstrap) as admin:
        assert sum(found.offset for found in admin.offsets("orders").values()) == 300
        assert {voter.id for voter in admin.quorum().voters} == {1, 2, 3}


def test_to_drain_again_changes_nothing_and_says_the_same(type_: Operator) -> None:
    assert type_("brokers drain 4 --wait") == 0, type_.err
    last = type_.out.splitlines()[-2:]
    assert type_("brokers drain 4 --wait") == 0, type_.err
    assert type_.out.splitlines() == last


def test_a_dry_run_shows_the_plan_and_does_nothing(type_: Operator) -> None:
    before = type_.carried()
    assert type_("brokers drain 3 --dry-run") == 0
    assert "Would cordon broker 3" in type_.out and "In all:" in type_.out
    assert type_.carried() == before
    assert "cordoned" not in {row["state"] for row in type_.document("brokers list")["brokers"]}


def test_a_run_that_lost_its_command_goes_on_and_its_limits_are_removed(type_: Operator) -> None:
    with Admin(type_.kafka.bootstrap) as admin:
        found = {TopicPartition("orders", n): list(p.replicas) for n, p in
                 admin.describe_topic("orders").partitions.items()}  # fmt: skip
        throttle(admin, {tp: [1, 2, 4] for tp in found}, found, 1_000_000)  # as a killed command leaves it
    status = type_.document("rebalance status")["status"]
    assert status["throttle"] and status["throttled_topics"] == ["orders"] and not status["moving"]
    assert type_("rebalance run --brokers 1,2,4 --wait --throttle 50M") == 0, type_.err
    assert "The limits of speed are removed." in type_.out
    assert type_.carried()[3] == 0
    status = type_.document("rebalance status")["status"]
    assert not status["throttle"] and not status["throttled_topics"]


def test_what_waits_for_a_broker_that_is_away_says_so_and_is_turned_back(type_: Operator) -> None:
    assert type_("rebalance run --brokers 1,2,3 --wait") == 0, type_.err
    type_.kafka.kill(4)
    try:
        with Admin(type_.kafka.bootstrap) as admin:
            admin.move({TopicPartition("orders", 0): [1, 2, 4]})
            eventually(lambda: 4 in admin.describe_cluster(fenced=True).fenced, what="4 is fenced")
        assert type_("rebalance run --brokers 1,2,3 --wait --timeout 1") == 5, type_.err
        assert "broker 4 does not serve" in type_.err
        assert "next: the moves go on" in type_.err
        assert type_("rebalance cancel --wait") == 0, type_.err
        assert "Turned back: 1 of 1." in type_.out
    finally:
        type_.kafka.start(4)


def test_limits_of_a_broker_that_has_just_died_are_not_known_and_the_others_are_told(type_: Operator) -> None:
    assert type_("configs set broker 1 leader.replication.throttled.rate=1000") == 0, type_.err
    type_.kafka.kill(4)
    try:
        with Admin(type_.kafka.bootstrap, timeout=2.0) as admin:
            found = throttles(admin, [1, 4], ["orders"])
        assert found.rates == {1: 1000} and found.silent == (4,)
        assert "a limit that it may have stays until it is back" in ended_text(found)
    finally:
        type_.kafka.start(4)
    assert type_("rebalance cancel --wait") == 0, type_.err
    assert "The limits of speed are removed." in type_.out


def test_a_broker_that_replicas_name_is_not_forgotten_without_a_word(type_: Operator) -> None:
    assert type_("cluster unregister --id 99 --dry-run -C 127.0.0.1:1") == 2, "nobody there knows the brokers"
    for words in ("brokers unregister 2", "cluster unregister --id 2"):
        assert type_(words) == 2
        assert "broker 2 runs, and would stay out until it is started again" in type_.err
    type_.kafka.stop(2)
    for words in ("brokers unregister 2", "cluster unregister --id 2"):
        assert type_(words) == 1
        assert "9 partitions have (orders-" in type_.err and "a replica on broker 2" in type_.err
        assert "--force" in type_.err
    assert type_("brokers unregister 2 --force --dry-run") == 0
    assert type_("cluster unregister --id 2 --force") == 0
    assert "9 partitions still name it" in type_.out
    assert type_("brokers list") == 0 and " gone " in type_.out
    type_.kafka.start(2)


@pytest.mark.parametrize(
    ("replicas", "isr", "refused"),
    [
        ((1,), (), "no copy in sync but that of broker 1"),
        ((1, 2), (1,), "no copy in sync but that of broker 1"),
        ((1, 2), (2,), "a replica on broker 1"),
        ((2, 3), (2,), None),
    ],
)
def test_the_last_copy_is_not_given_up_without_a_word_though_a_move_takes_it_elsewhere(
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    refused: str | None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """`placed` has the replicas that a move ends with: the broker that is copied from is not among them."""
    brokers = {number: Broker(number, "h", number, None) for number in (1, 2, 3)}
    moved = Placement(brokers, [1], {TopicPartition("t", 0): [2, 3]}, {})
    monkeypatch.setattr(unregister.Placement, "of", lambda _: moved)
    part = SimpleNamespace(partition=0, replicas=replicas, isr=isr)
    topics = [SimpleNamespace(name="t", partitions={0: part})]
    admin: Any = SimpleNamespace(
        topics=lambda **_: topics, quorum=lambda: SimpleNamespace(voters=[]), cluster=None
    )
    args = argparse.Namespace(id=1, force=False, dry_run=True, json=False)
    if refused is None:
        assert unregister.unregister(admin, args, "d") == 0
        return
    with pytest.raises(KafkaError, match=refused):
        unregister.unregister(admin, args, "d")
    args.force = True
    assert unregister.unregister(admin, args, "d") == 0
    assert ("no other copy in sync" in capsys.readouterr().out) == (not set(isr) - {1})


def test_a_controller_is_forgotten_once_it_votes_no_more(type_: Operator) -> None:
    assert type_("cluster unregister-controller --id 1") == 2
    assert "controller 1 is a voter, and registers again as long as it runs" in type_.err
    assert "barnabas quorum remove-controller -i 1" in type_.err
    assert type_("cluster unregister-controller --id 99") == 1
    assert "controller 99 is not registered" in type_.err and "list-endpoints -C HOST:PORT" in type_.err
    assert type_("brokers drain 4 --wait") == 0, type_.err
    assert type_("cluster unregister-controller --id 4") == 0, type_.err
    assert type_.out == "Controller 4 is no longer registered.\n"


def test_what_helps_where_a_cluster_has_no_record_for_a_controller_that_left() -> None:
    refused = UnregisterControllerResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, error_message="too low")
    at = SimpleNamespace(request=awaited(lambda *_: refused))
    cluster: Any = SimpleNamespace(AWAITED=True, any=awaited(lambda: at), retrying=lambda attempt: attempt())
    with pytest.raises(KafkaError, match="unregistering controller 5: too low") as caught:
        at_once(unregister_controller(cluster, 5))
    assert "features upgrade --release-version 4.4" in (caught.value.next_step or "")


def test_a_topic_shows_who_else_may_lead(type_: Operator) -> None:
    assert type_("topics describe orders") == 0
    assert "ELR  LAST-KNOWN-ELR" in type_.out
    row = type_.document("topics describe orders")["topic"]["partitions"][0]
    assert row["elr"] == [] and row["last_known_elr"] == []


class Standing:
    """One partition that moves from brokers 1 and 2 to 3, and does not get there."""

    def moves(self) -> list[Move]:
        return [Move("orders", 0, (1, 2, 3), (3,), (1, 2))]

    def log_dirs(self, broker: int) -> BrokerDirs:
        return BrokerDirs(broker, (), (), (), (), -1, -1)

    def describe_cluster(self, *, fenced: bool) -> ClusterDescription:
        return ClusterDescription("c", 1, (), (1, 2))


def test_a_move_that_stands_still_says_why_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = itertools.count(0.0, 1.0)
    time = SimpleNamespace(monotonic=lambda: next(moments), sleep=lambda _: None)
    monkeypatch.setattr(moving, "time", time)
    said: list[str] = []
    admin: Any = Standing()
    look = Placement({}, (), {TopicPartition("orders", 0): [1, 2]}, {})
    watch = moving.Watch(admin, [TopicPartition("orders", 0)], look)
    with pytest.raises(KafkaError, match="nobody leads orders-0"):
        moving.wait(watch, said.append, 60.0)
    assert said == [
        "0 of 1 moved, 0 B left",
        "0 of 1 moved, 0 B left; nobody leads orders-0: broker 1,2 does not serve",
    ]


def test_where_brokers_are_too_few_the_cordoned_ones_are_named() -> None:
    brokers = {n: Broker(n, "h", 9092) for n in (1, 2, 3, 4)}
    dirs = {3: BrokerDirs(3, ("/a",), (), ("/a",), (), -1, -1)}
    look = Placement(brokers, (), {TopicPartition("t", 0): [1, 2, 4]}, dirs)
    with pytest.raises(ConfigError) as error:
        look.spread_over(look.targets()[:2], leaving=[4])
    assert error.value.next_step == "broker 3 is cordoned: `barnabas brokers add 3` lifts that"


@pytest.mark.parametrize(
    ("brokers", "step"),
    [((1, 3), "start another one, or lift a cordon: `barnabas brokers add 3`"), ((1,), "start another one")],
)
def test_where_no_other_broker_takes_replicas_only_a_cordon_that_there_is_is_named(
    brokers: tuple[int, ...], step: str
) -> None:
    dirs = {n: BrokerDirs(n, ("/a",), (), ("/a",), (), -1, -1) for n in brokers if n == 3}
    look = Placement({n: Broker(n, "h", 9092) for n in brokers}, (), {TopicPartition("t", 0): [1]}, dirs)
    with pytest.raises(ConfigError) as error:
        look.moved_off(1)
    assert error.value.next_step == step


@pytest.mark.parametrize(
    ("line", "code", "reason"),
    [
        ("brokers drain 9", 4, "there is no broker 9; there are 1, 2, 3, 4"),
        ("brokers describe 9", 4, "there is no broker 9; there are 1, 2, 3, 4"),
        ("brokers unregister 9", 4, "there is no broker 9; there are 1, 2, 3, 4"),
        ("brokers add 9", 2, "broker 9 is not registered"),
        ("rebalance run --brokers 1,2", 2, "orders-0 has 3 replicas"),
        (
            "rebalance run --brokers one",
            2,
            "barnabas rebalance run: argument --brokers: 'one' cannot be used",
        ),
        ("rebalance plan --throttle fast", 2, "--throttle fast is no rate"),
        ("rebalance run --throttle 0", 2, "--throttle 0 is no rate"),
    ],
)
def test_a_mistake_gets_its_reason_and_a_next_step(
    type_: Operator, line: str, code: int, reason: str
) -> None:
    before = type_.carried()
    assert type_(line) == code
    assert type_.err.startswith(f"error: {reason}") and "\n  next: " in type_.err
    assert type_.carried() == before


def test_sizes_times_and_rates_are_said_as_people_do() -> None:
    assert [size_text(n) for n in (-1, 0, 1023, 1536, 5 * 1024**3)] == [
        "?",
        "0 B",
        "1023 B",
        "1.5 KiB",
        "5.0 GiB",
    ]
    assert [duration_text(s) for s in (0.2, 59, 90, 3700)] == ["1 s", "59 s", "1 min 30 s", "1 h 1 min"]
    assert [byte_rate(t) for t in ("500", "10M", "1Gi", "2MB/s")] == [500, 10**7, 1024**3, 2 * 10**6]
    for wrong in ("", "-1", "1e", "10 parsecs", "0", "nan"):
        with pytest.raises(ConfigError):
            byte_rate(wrong)
