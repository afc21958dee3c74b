"""Replicas are striped: spread over racks and brokers, led by unfenced ones.

Scenarios: K198.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.cluster import Chance

from barnabas.controller.decisions.placement import place, place_by_number
from barnabas.controller.image import BrokerEndpoint, BrokerState
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import Uuid


def broker(
    id_: int, rack: str | None = None, *, fenced: bool = False, leaving: bool = False, host: str = ""
) -> BrokerState:
    endpoints = (BrokerEndpoint("PLAINTEXT", host, 9092, 0),) if host else ()
    return BrokerState(
        id_, 1, Uuid.of(1, id_), endpoints, {}, rack, fenced, leaving, (Uuid.of(id_, 500),), ()
    )


def test_leaders_and_replicas_are_spread_evenly() -> None:
    placed = place([broker(n) for n in range(6)], partitions=60, replicas=3, randomness=Chance())
    leaders = Counter(replicas[0] for replicas in placed)
    everywhere = Counter(id_ for replicas in placed for id_ in replicas)
    assert set(leaders.values()) == {10}
    assert max(everywhere.values()) - min(everywhere.values()) <= 6


@pytest.mark.parametrize("seed", range(10))
def test_all_others_inherit_from_a_broker_that_dies(seed: int) -> None:
    placed = place([broker(n) for n in range(5)], partitions=100, replicas=3, randomness=Chance(seed))
    heirs = Counter(replicas[:2] for replicas in placed)
    assert len(heirs) == 5 * 4
    assert max(heirs.values()) <= 8  # of 20


def test_every_rack_gets_one_replica_before_a_rack_gets_two() -> None:
    brokers = [broker(n, "abc"[n % 3]) for n in range(9)]
    for replicas in place(brokers, partitions=40, replicas=3, randomness=Chance()):
        assert {"abc"[id_ % 3] for id_ in replicas} == set("abc")


def test_a_fenced_broker_never_leads() -> None:
    brokers = [broker(1, "a", fenced=True), broker(2, "b"), broker(3, "c")]
    placed = place(brokers, partitions=20, replicas=3, randomness=Chance())
    assert all(replicas[0] != 1 and 1 in replicas for replicas in placed)


def test_brokers_that_leave_or_are_wholly_cordoned_get_nothing() -> None:
    cordoned = broker(3)._replace(cordoned=broker(3).directories)
    placed = place(
        [broker(1), broker(2, leaving=True), cordoned], partitions=5, replicas=1, randomness=Chance()
    )
    assert placed == [(1,)] * 5


def test_the_same_chance_places_the_same() -> None:
    brokers = [broker(n) for n in range(5)]
    first, second = (place(brokers, partitions=9, replicas=2, randomness=Chance(7)) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("brokers", "replicas"),
    [([broker(1)], 0), ([broker(1)], 2), ([broker(1, fenced=True)], 1), ([], 1)],
    ids=["no replicas", "more than brokers", "nobody unfenced", "nobody"],
)
def test_what_cannot_be_placed_is_refused(brokers: list[BrokerState], replicas: int) -> None:
    with pytest.raises(KafkaError) as error:
        place(brokers, partitions=1, replicas=replicas, randomness=Chance())
    assert error.value.code == ErrorCode.INVALID_REPLICATION_FACTOR


@given(
    st.lists(st.tuples(st.sampled_from([None, "a", "b", "c"]), st.booleans()), min_size=1, max_size=9),
    st.integers(1, 25),
    st.integers(0, 1000),
    st.data(),
)
def test_any_cluster_gets_as_many_different_replicas_as_asked_for_and_an_unfenced_leader(
    kinds: list[tuple[str | None, bool]], partitions: int, seed: int, data: st.DataObject
) -> None:
    brokers = [broker(id_, rack, fenced=fenced) for id_, (rack, fenced) in enumerate(kinds)]
    brokers[0] = brokers[0]._replace(fenced=False)
    replicas = data.draw(st.integers(1, len(brokers)))
    placed = place(brokers, partitions=partitions, replicas=replicas, randomness=Chance(seed))
    assert len(placed) == partitions
    for one in placed:
        assert len(set(one)) == len(one) == replicas
        assert not brokers[one[0]].fenced


@pytest.mark.parametrize("seed", range(100))
def test_no_host_gets_a_second_replica_while_a_broker_of_another_host_is_left(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        hosts = [f"h{chance.randint(1, 4)}" for _ in range(chance.randint(1, 9))]
        racks = {host: chance.choice([None, "a", "b"]) for host in hosts}
        brokers = [
            broker(id_, racks[host], fenced=id_ > 0 and chance.random() < 0.2, host=host)
            for id_, host in enumerate(hosts)
        ]
        replicas = chance.randint(1, min(len(brokers), 4))
        placed = place(brokers, partitions=12, replicas=replicas, randomness=Chance(seed))
        for one in placed:
            assert len(set(one)) == replicas
            assert len({hosts[id_] for id_ in one}) == min(replicas, len(set(hosts)))
            assert len({racks[hosts[id_]] for id_ in one}) == min(replicas, len(set(racks.values())))


def test_machines_behind_one_shared_address_are_not_one_host() -> None:
    def reached(id_: int) -> BrokerState:
        own = BrokerEndpoint("INTERNAL", f"m{id_ % 3}", 9094, 0)
        return broker(id_, host="balancer.example")._replace(
            endpoints=(own, BrokerEndpoint("EXTERNAL", "lb", id_, 0))
        )

    for one in place([reached(id_) for id_ in range(6)], partitions=30, replicas=3, randomness=Chance()):
        assert {id_ % 3 for id_ in one} == {0, 1, 2}


def test_by_number_fifteen_partitions_lie_on_five_brokers_as_in_the_first_design() -> None:
    placed = place_by_number([broker(n) for n in range(5)], first=0, partitions=15, replicas=2)
    assert placed == [
        *[(0, 1), (1, 2), (2, 3), (3, 4), (4, 0)],
        *[(0, 2), (1, 3), (2, 4), (3, 0), (4, 1)],
        *[(0, 3), (1, 4), (2, 0), (3, 1), (4, 2)],
    ]


@given(
    st.integers(min_value=1, max_value=7),
    st.integers(min_value=1, max_value=90),
    st.data(),
)
def test_by_number_replica_j_of_a_brokers_partition_k_is_on_broker_i_plus_j_plus_k(
    brokers: int, partitions: int, data: st.DataObject
) -> None:
    replicas = data.draw(st.integers(min_value=1, max_value=brokers))
    placed = place_by_number(
        [broker(n) for n in range(brokers)], first=0, partitions=partitions, replicas=replicas
    )
    for number, chosen in enumerate(placed):
        i, k = number % brokers, number // brokers
        assert chosen[0] == i and len(set(chosen)) == replicas
        for j in range(1, replicas):
            if j + k < brokers:
                assert chosen[j] == (i + j + k) % brokers
    heirs = Counter(chosen[:2] for chosen in placed if replicas > 1 and len(chosen) > 1)
    whole = partitions // (brokers * max(1, brokers - 1))
    assert all(count in (whole, whole + 1) for count in heirs.values())


def test_by_number_partitions_that_are_added_go_on_where_the_topic_ended() -> None:
    brokers = [broker(n) for n in (4, 9, 2)]
    whole = place_by_number(brokers, first=0, partitions=10, replicas=3)
    assert whole[:2] == [(2, 4, 9), (4, 9, 2)]
    assert place_by_number(brokers, first=4, partitions=6, replicas=3) == whole[4:]


def test_by_number_a_fenced_broker_takes_only_what_the_others_cannot() -> None:
    brokers = [broker(1, fenced=True), broker(2), broker(3)]
    assert place_by_number(brokers, first=0, partitions=2, replicas=2) == [(2, 3), (3, 2)]
    assert place_by_number(brokers, first=0, partitions=1, replicas=3) == [(2, 3, 1)]
    with pytest.raises(KafkaError) as error:
        place_by_number(brokers, first=0, partitions=1, replicas=4)
    assert error.value.code == ErrorCode.INVALID_REPLICATION_FACTOR
