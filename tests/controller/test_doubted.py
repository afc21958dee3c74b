"""Elections among replicas that may lack what their disks said was synced: whose log goes furthest, leads."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.cluster import Cluster, directory

from barnabas.model import NO_NODE
from barnabas.wire.schemas.brokers import BrokerHeartbeatRequestLeaderless

# The last known leader.


def lost_last_leader(cluster: Cluster, *others: int) -> None:
    """Broker 1 was the last in sync and came back after an unclean stop; the others serve."""
    cluster.assign([1, 2, 3])
    for other in (2, 3):
        cluster.beat(other, want_fence=True)
    cluster.time += 10
    cluster.register(1, incarnation=2, previous_broker_epoch=-1)
    assert (cluster.state().isr, cluster.state().elr, cluster.state().last_known_elr) == ((), (), (1,))
    for other in others:
        cluster.beat(other)


def leaderless(cluster: Cluster, epoch: int, end: int) -> list[BrokerHeartbeatRequestLeaderless]:
    topic = cluster.image.topics_by_name["flights"].id
    return [
        BrokerHeartbeatRequestLeaderless(
            topic_id=topic, partition_index=0, leader_epoch=epoch, end_offset=end
        )
    ]


@pytest.mark.parametrize(
    ("ends", "leads"),
    [
        ({1: (3, 90), 2: (3, 100), 3: (3, 95)}, 2),
        ({1: (3, 90), 2: (3, 90), 3: (3, 89)}, 1),
        ({1: (4, 50), 2: (3, 100), 3: (3, 200)}, 1),
        ({1: (3, 90), 2: (4, 10), 3: (3, 200)}, 2),
    ],
)
def test_of_replicas_that_may_lack_records_the_one_with_the_longest_log_leads(
    ends: dict[int, tuple[int, int]], leads: int
) -> None:
    cluster = Cluster(1, 2, 3)
    lost_last_leader(cluster, 2, 3)
    for broker in (2, 1, 3):
        assert cluster.state().leader == NO_NODE
        cluster.beat(broker, leaderless=leaderless(cluster, *ends[broker]))
    assert (cluster.state().leader, cluster.state().isr) == (leads, (leads,))
    assert cluster.state().recovering


def test_a_last_leader_waits_half_a_minute_for_replicas_that_are_away() -> None:
    cluster = Cluster(1, 2, 3)
    lost_last_leader(cluster, 2)
    cluster.beat(2, leaderless=leaderless(cluster, 3, 80))
    for _ in range(15):
        cluster.beat(1, leaderless=leaderless(cluster, 3, 90))
        assert cluster.state().leader == NO_NODE
        cluster.time += 2
        cluster.beat(2, leaderless=leaderless(cluster, 3, 80))
    cluster.beat(1, leaderless=leaderless(cluster, 3, 90))
    assert cluster.state().leader == 1


def test_replicas_that_may_lack_records_get_a_leader_though_all_their_disks_are_full() -> None:
    """A disk that fills up ends brokers uncleanly, and it is still full when they are back."""
    cluster = Cluster(1, 2, 3)
    lost_last_leader(cluster, 2, 3)
    for broker, end in ((2, 100), (1, 90), (3, 95)):
        full = [directory(broker)]
        cluster.beat(broker, leaderless=leaderless(cluster, 3, end), unfit_log_dirs=full)
    assert cluster.state().leader == 2


def test_a_new_controller_hears_the_last_leader_before_it_elects_it() -> None:
    cluster = Cluster(1, 2, 3)
    lost_last_leader(cluster, 2, 3)
    cluster.beat(1, leaderless=leaderless(cluster, 3, 90))
    cluster.new_controller()
    for broker, end in ((2, 100), (1, 90), (3, 95)):
        assert cluster.state().leader == NO_NODE
        cluster.beat(broker, leaderless=leaderless(cluster, 3, end))
    assert cluster.state().leader == 2


def test_a_last_leader_that_says_nothing_of_its_logs_leads_at_once() -> None:
    """It is one of Apache Kafka's."""
    cluster = Cluster(1, 2, 3)
    lost_last_leader(cluster, 2)
    cluster.beat(2, leaderless=leaderless(cluster, 3, 800))
    cluster.beat(1)
    assert cluster.state().leader == 1


# Those that are eligible.


def killed(cluster: Cluster, *brokers: int) -> None:
    """These brokers are killed together and start again; nobody was told of it, and their disks look whole."""
    cluster.time += 10
    for broker in brokers:
        cluster.register(broker, incarnation=2, previous_broker_epoch=cluster.epochs[broker])


def all_killed() -> Cluster:
    """Brokers 2 and 3 are eligible: they were the last in sync."""
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], min_insync_replicas="2")
    killed(cluster, 1, 2, 3)
    assert (cluster.state().isr, cluster.state().elr) == ((), (2, 3))
    return cluster


def says(cluster: Cluster, broker: int, end: int, **fields: Any) -> int:
    """A broker that was killed says where its log ends: who leads then."""
    row = leaderless(cluster, 0, end) if cluster.state().leader == NO_NODE else []
    cluster.beat(broker, leaderless=row, unclean_stop=True, **fields)
    return cluster.state().leader


@pytest.mark.parametrize(
    ("ends", "leads", "eligible"),
    [
        ({2: 240, 3: 245}, 3, ()),
        ({2: 245, 3: 240}, 2, ()),
        ({2: 245, 3: 245}, 2, (3,)),
        ({1: 250, 2: 245, 3: 240}, 1, ()),
    ],
)
def test_of_eligible_replicas_that_were_killed_the_one_whose_log_goes_furthest_leads(
    ends: dict[int, int], leads: int, eligible: tuple[int, ...]
) -> None:
    """One whose log ends before that is eligible no more: what it lacks may be committed."""
    cluster = all_killed()
    for broker, end in ends.items():
        assert cluster.state().leader == NO_NODE
        says(cluster, broker, end)
    assert (cluster.state().leader, cluster.state().isr) == (leads, (leads,))
    assert (cluster.state().elr, cluster.state().recovering) == (eligible, leads == 1)


def test_an_eligible_replica_that_was_killed_waits_half_a_minute_for_the_others() -> None:
    cluster = all_killed()
    for _ in range(15):
        assert says(cluster, 2, 240) == NO_NODE
        cluster.time += 2
    assert says(cluster, 2, 240) == 2
    assert cluster.state().elr == (3,)


def test_a_new_controller_hears_an_eligible_replica_before_it_elects_it() -> None:
    """It may have been killed; broker 3, which has more, is unfenced and not heard either."""
    cluster = all_killed()
    assert says(cluster, 2, 240) == NO_NODE
    cluster.new_controller()
    cluster.register(1, incarnation=3)
    cluster.beat(1)
    assert cluster.state().leader == NO_NODE
    assert says(cluster, 2, 240) == NO_NODE
    assert says(cluster, 3, 245) == 3


def test_an_eligible_replica_that_stopped_in_order_leads_at_once() -> None:
    """Or it is one of Apache Kafka, whose brokers say that they stopped in order by their previous epoch."""
    cluster = all_killed()
    assert says(cluster, 2, 240) == NO_NODE
    cluster.beat(3)
    assert cluster.state().leader == 3


def test_the_only_eligible_replica_leads_at_once_though_it_was_killed() -> None:
    cluster = Cluster(1)
    cluster.create()
    killed(cluster, 1)
    assert cluster.state().elr == (1,)
    assert says(cluster, 1, 240) == 1
    assert not cluster.state().recovering


def test_the_only_eligible_replica_asks_one_that_is_not_since_it_was_killed() -> None:
    """The end of its log was torn, so it may lack records; but it need not."""
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], min_insync_replicas="2")
    cluster.beat(1, want_fence=True)
    cluster.time += 10
    cluster.register(3, incarnation=2, previous_broker_epoch=-1)
    assert says(cluster, 3, 245) == 2
    killed(cluster, 2)
    assert (cluster.state().isr, cluster.state().elr) == ((), (2,))
    assert says(cluster, 2, 240) == NO_NODE
    assert says(cluster, 3, 245) == 3


def test_a_replica_that_was_killed_does_not_replace_the_last_one_in_sync_before_it_has_caught_up() -> None:
    cluster = Cluster(1, 2, 3)
    cluster.assign([1, 2, 3], min_insync_replicas="2")
    cluster.beat(3, want_fence=True)
    killed(cluster, 2)
    assert says(cluster, 2, 240) == 1
    assert (cluster.state().isr, cluster.state().elr) == ((1,), (2,))
    cluster.beat(1, want_fence=True)
    assert (cluster.state().leader, cluster.state().elr) == (NO_NODE, (1, 2))
    assert says(cluster, 2, 240) == NO_NODE
    assert says(cluster, 1, 245) == 1
