"""Replication throttles (KIP-73): replicas that are made or moved come at a rate, those in sync never wait."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.replication import Replicas

from barnabas.broker.replicas.quota import Quota, is_throttled
from barnabas.config import Config
from barnabas.errors import ConfigError, ErrorCode
from barnabas.model import Now
from barnabas.sim.kernel.disk import MemoryDisk

RATE = 100_000


def at(seconds: float) -> Now:
    return Now(1000.0 + seconds, 0)


def test_a_quota_lets_its_rate_pass_and_a_second_to_spare() -> None:
    quota = Quota(RATE)
    assert not quota.exceeded(at(0))
    quota.record(RATE, at(0))
    assert not quota.exceeded(at(0))
    quota.record(RATE // 2, at(0))
    assert quota.exceeded(at(0)) and quota.free_at(at(0)) == pytest.approx(1000.5)
    assert quota.exceeded(at(0.4)) and not quota.exceeded(at(0.5))
    quota.record(1, at(100))
    assert not quota.exceeded(at(100))
    quota.record(RATE, at(100))
    assert quota.exceeded(at(100))  # an idle minute saves up no more than one second


def test_without_a_rate_nothing_waits_and_with_none_everything_does() -> None:
    quota = Quota()
    quota.record(1 << 60, at(0))
    assert not quota.limited and not quota.exceeded(at(0))
    quota.configure(0)
    assert quota.exceeded(at(0)) and quota.free_at(at(0)) == float("inf")
    quota.configure(RATE)
    assert not quota.exceeded(at(10**15))


def test_which_replicas_a_topic_lists() -> None:
    assert is_throttled(("*",), 3, 7) and is_throttled(("0:1", "3:7"), 3, 7)
    assert not is_throttled((), 3, 7) and not is_throttled(("3:1", "7:3"), 3, 7)


@pytest.mark.parametrize("value", ["0", "0:x", "x:0", "0:1,", "*,0:1", "-1:0"])
def test_a_senseless_list_is_refused(value: str) -> None:
    config = Config.load({})
    for side in ("leader", "follower"):
        name = f"{side}.replication.throttled.replicas"
        config.log_config({name: "0:1,1:2"})
        config.log_config({name: "*"})
        config.log_config({name: ""})
        if value != "0:1,":  # an empty element counts for nothing
            with pytest.raises(ConfigError, match="partition:broker"):
                config.log_config({name: value})


def throttle(replicas: Replicas, *, leader: str = "", follower: str = "", rate: int = RATE) -> None:
    """Give the topic its lists and every node its rates, as kafka-reassign-partitions does."""
    rates = {f"{side}.replication.throttled.rate": str(rate) for side in ("leader", "follower")}
    given = {}
    if leader:
        given["leader_replication_throttled_replicas"] = leader
    if follower:
        given["follower_replication_throttled_replicas"] = follower
    for node in replicas.nodes.values():
        node.configure("t", **given)
        node.broker.reconfigure(node.config.with_changes(rates))


def copied(replicas: Replicas, seconds: float, id_: int = 3) -> int:
    """Bytes in the log of a replica after so much time."""
    for _ in range(int(seconds / 0.2)):
        for _ in range(10):  # 1.5 MB a second, if nothing holds them back
            for id_ in replicas.nodes:
                replicas.fetch(id_)
            replicas.turn()
        replicas.after(0.2)
    return replicas[id_].log.size


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_is_not_in_sync_comes_at_the_rate(side: str) -> None:
    replicas = Replicas(replica_fetch_max_bytes="30000")
    replicas.put(isr=(1, 2))
    replicas.cut.add(3)
    for _ in range(40):
        replicas.produce("x" * 25_000)
        replicas.settle(2)
    whole = replicas[1].log.size
    throttle(replicas, **{side: "0:1" if side == "leader" else "0:3"})
    replicas.cut.clear()
    after_2 = copied(replicas, 2)
    assert 0.5 * RATE <= after_2 <= 4.5 * RATE
    after_4 = copied(replicas, 2)
    assert after_4 - after_2 == pytest.approx(2 * RATE, rel=0.4)
    assert copied(replicas, 12) == whole
    assert set(replicas.state.isr) == {1, 2, 3}


@pytest.mark.parametrize(
    "lists", [{"leader": "*"}, {"follower": "*"}, {"leader": "0:1", "follower": "0:2,0:3"}]
)
def test_replicas_in_sync_are_never_held_back(lists: dict[str, str]) -> None:
    """Far more than the rate: acks=all still comes at once."""
    replicas = Replicas()
    throttle(replicas, **lists)
    for _ in range(30):
        produced = replicas.produce("x" * 50_000)
        replicas.settle(3)
        assert produced.error == ErrorCode.NONE
    assert replicas.state.isr == (1, 2, 3)
    assert copied(replicas, 0.1) == replicas[1].log.size


def test_only_the_partitions_that_are_listed_wait() -> None:
    replicas = Replicas(replica_fetch_max_bytes="30000")
    replicas.put(isr=(1, 2))
    replicas.cut.add(3)
    for _ in range(20):
        replicas.produce("x" * 25_000)
        replicas.settle(2)
    throttle(replicas, leader="1:1,0:2", follower="0:2,1:3")
    replicas.cut.clear()
    assert copied(replicas, 0.6) == replicas[1].log.size


def test_a_higher_rate_helps_at_once_and_no_list_lets_everything_through() -> None:
    replicas = Replicas(replica_fetch_max_bytes="30000")
    replicas.put(isr=(1, 2))
    replicas.cut.add(3)
    for _ in range(20):
        replicas.produce("x" * 25_000)
        replicas.settle(2)
    throttle(replicas, follower="*", rate=1000)
    replicas.cut.clear()
    slow = copied(replicas, 2)
    assert slow < replicas[1].log.size
    throttle(replicas, follower="*", rate=10**9)
    assert copied(replicas, 1.5) == replicas[1].log.size


def test_the_rates_are_settings_of_a_broker_at_run_time() -> None:
    node = Node(MemoryDisk())
    node.create("t", leader_replication_throttled_replicas="*")
    assert node.broker.partition("t", 0).settings.leader_throttled  # type: ignore[union-attr]
    assert not node.broker.leader_quota.limited
    changed = node.config.with_changes({"leader.replication.throttled.rate": "5"})
    node.broker.reconfigure(changed)
    assert node.broker.leader_quota.limited and not node.broker.follower_quota.limited
    assert node.append(batch("a")).error_code == 0
    assert len(node.fetch().fetched.records) > 0  # consumers are none of it
