"""Plans that give new brokers their share and empty those that go (source document 001), moving little."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from barnabas.client.balance import balanced, copies, vacated
from barnabas.errors import ConfigError
from barnabas.model import TopicPartition

Assignment = dict[TopicPartition, tuple[int, ...]]


def spread(partitions: int, brokers: Sequence[int], replicas: int = 3, topic: str = "t") -> Assignment:
    """Round and round."""
    count = len(brokers)
    return {
        TopicPartition(topic, k): tuple(brokers[(k + j) % count] for j in range(replicas))
        for k in range(partitions)
    }


def after(current: Assignment, plan: Mapping[TopicPartition, Sequence[int]]) -> Assignment:
    return {where: tuple(plan.get(where, replicas)) for where, replicas in current.items()}


def counts(assignment: Assignment) -> tuple[Counter[int], Counter[int]]:
    """Replicas and first replicas by broker."""
    held = Counter(broker for replicas in assignment.values() for broker in replicas)
    return held, Counter(replicas[0] for replicas in assignment.values())


def is_even(assignment: Assignment, brokers: Sequence[int]) -> bool:
    held, led = counts(assignment)
    assert set(held) <= set(brokers)
    return all(max(n[b] for b in brokers) - min(n[b] for b in brokers) <= 1 for n in (held, led))


def test_a_broker_that_comes_gets_its_share_and_nothing_else_moves() -> None:
    current = spread(60, [1, 2, 3])
    plan = balanced(current, dict.fromkeys([1, 2, 3, 4]))
    assert is_even(after(current, plan), [1, 2, 3, 4])
    assert copies(current, plan) == 45  # a quarter of 180: what the new one has in the end, and no more


def test_a_broker_that_goes_is_left_empty_and_only_its_replicas_are_copied() -> None:
    current = spread(60, [1, 2, 3, 4])
    held, _ = counts(current)
    plan = balanced(current, dict.fromkeys([2, 3, 4]))
    assert is_even(after(current, plan), [2, 3, 4])
    assert copies(current, plan) == held[1]


def test_of_a_broker_that_is_drained_only_what_it_carries_is_copied_whatever_the_others_carry() -> None:
    current = spread(60, [1, 2, 3])
    held, _ = counts(current)
    plan = vacated(current, dict.fromkeys([2, 3, 4, 5]))
    assert (
        copies(current, plan)
        == held[1]
        == 60
        < copies(current, balanced(current, dict.fromkeys([2, 3, 4, 5])))
    )
    now, _ = counts(after(current, plan))
    assert now[1] == 0 and now[4] == now[5] == 30, "the copies go to the brokers that have fewest"
    assert vacated(spread(60, [2, 3], replicas=2), dict.fromkeys([2, 3, 4])) == {}, (
        "an empty broker is no reason"
    )


def test_a_drained_brokers_replicas_go_to_other_racks_than_those_of_the_rest() -> None:
    plan = vacated({TopicPartition("t", 0): (1, 2)}, {2: "a", 3: "a", 4: "b"})
    assert plan == {TopicPartition("t", 0): [4, 2]}


def test_a_broker_that_is_away_keeps_what_it_has_and_gets_nothing() -> None:
    current = spread(60, [1, 2, 3, 4], replicas=2)
    held, _ = counts(current)
    done = after(current, balanced(current, dict.fromkeys([2, 3]), {4: None}))
    held_now, _ = counts(done)
    assert 1 not in held_now, "who goes is left empty"
    assert held_now[4] == held[4]
    assert {where for where in current if 4 in current[where]} == {w for w in done if 4 in done[w]}
    assert abs(held_now[2] - held_now[3]) <= 1


def test_a_broker_that_is_away_counts_as_one_of_the_replicas() -> None:
    current = {TopicPartition("t", 0): (1, 2, 4)}
    assert after(current, balanced(current, dict.fromkeys([2, 3]), {4: None}))[TopicPartition("t", 0)] == (
        3,
        2,
        4,
    )


def test_an_even_cluster_is_left_alone() -> None:
    current = spread(60, [1, 2, 3])
    assert balanced(current, dict.fromkeys([1, 2, 3])) == {}


def test_leaders_are_spread_without_copying_anything() -> None:
    current = {TopicPartition("t", k): (1, 2, 3) for k in range(9)}
    plan = balanced(current, dict.fromkeys([1, 2, 3]))
    assert copies(current, plan) == 0
    assert is_even(after(current, plan), [1, 2, 3])


def test_a_partition_is_never_in_fewer_racks_than_before() -> None:
    racks = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}
    current = {TopicPartition("t", k): ((1, 3) if k % 2 else (2, 4)) for k in range(20)}
    done = after(current, balanced(current, racks))
    assert all(len({racks[b] for b in replicas}) == 2 for replicas in done.values())
    assert counts(done)[0][5] >= 7


def test_replicas_that_have_to_go_look_for_another_rack_first() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    plan = balanced({TopicPartition("t", 0): (1, 9)}, racks)
    assert plan[TopicPartition("t", 0)] == [1, 3] or plan[TopicPartition("t", 0)] == [3, 1]


def test_more_replicas_than_brokers_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match=r"t-0 has 3 replicas, that is more than 2 brokers"):
        balanced(spread(1, [1, 2, 3]), dict.fromkeys([1, 2]))


@pytest.mark.parametrize("seed", range(30))
def test_whatever_it_is_given_it_comes_out_even_and_whole(seed: int) -> None:
    chance = random.Random(seed)
    before = list(range(1, chance.randint(2, 8)))
    wanted = sorted(chance.sample(range(1, 12), chance.randint(3, 8)))
    most = min(len(before), len(wanted), 3)
    current = {
        TopicPartition(f"t{chance.randint(0, 2)}", k): tuple(chance.sample(before, chance.randint(1, most)))
        for k in range(chance.randint(1, 80))
    }
    plan = balanced(current, dict.fromkeys(wanted))
    done = after(current, plan)
    for where, replicas in done.items():
        assert len(set(replicas)) == len(replicas) == len(current[where])
    held, _ = counts(done)
    assert set(held) <= set(wanted)
    assert max(held[b] for b in wanted) - min(held[b] for b in wanted) <= 1
    assert balanced(done, dict.fromkeys(wanted)) == {}


@pytest.mark.parametrize("seed", range(100))
def test_whatever_moves_no_host_gets_two_replicas_while_another_has_none(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        hosts = {id_: f"h{chance.randint(1, 5)}" for id_ in range(1, 11)}
        before, wanted = (chance.sample(sorted(hosts), chance.randint(3, 10)) for _ in range(2))
        replicas = chance.randint(1, 3)
        current = {
            TopicPartition("t", k): tuple(chance.sample(before, replicas))
            for k in range(chance.randint(1, 12))
        }
        done = after(current, balanced(current, dict.fromkeys(wanted), hosts=hosts))
        possible = min(replicas, len({hosts[id_] for id_ in wanted}))
        assert all(len({hosts[id_] for id_ in found}) == possible for found in done.values())


def test_racks_and_hosts_are_parted_together() -> None:
    racks = {1: "a", 2: "a", 3: "b"}
    plan = balanced({TopicPartition("t", 0): (1, 9)}, racks, hosts={1: "x", 2: "y", 3: "x"})
    assert set(plan[TopicPartition("t", 0)]) == {2, 3}, "two racks and two hosts, though it copies one more"


def fewest_copies(current: Assignment, staying: Sequence[int]) -> int:
    """What cannot be done with less: all that lies elsewhere, and what staying brokers have above their share."""
    held, _ = counts(current)
    everything = sum(held.values())
    share, rest = divmod(everything, len(staying))
    fullest = sorted((held[broker] for broker in staying), reverse=True)
    shares = [share + 1] * rest + [share] * (len(staying) - rest)
    above = sum(max(0, has - may) for has, may in zip(fullest, shares, strict=True))
    return above + sum(count for broker, count in held.items() if broker not in staying)


@pytest.mark.parametrize("seed", range(100))
def test_brokers_that_come_and_go_move_little_more_than_the_least(seed: int) -> None:
    draw = random.Random(seed)
    before = list(range(1, draw.randint(4, 9)))
    come = [max(before) + n for n in range(1, draw.randint(1, 4))]
    gone = draw.sample(before, draw.randint(0, len(before) - 3))
    current = {
        TopicPartition("t", k): tuple(draw.sample(before, min(3, len(before))))
        for k in range(draw.randint(20, 150))
    }
    staying = [broker for broker in (*before, *come) if broker not in gone]
    plan = balanced(current, dict.fromkeys(staying))
    done = after(current, plan)
    assert is_even(done, staying), "within one, and who goes is left empty"
    assert all(len(set(replicas)) == len(replicas) == 3 for replicas in done.values())
    assert copies(current, plan) <= fewest_copies(current, staying) * 1.1


@pytest.mark.parametrize("seed", range(100))
def test_what_is_spread_over_racks_stays_so_and_is_even_where_the_racks_are(seed: int) -> None:
    draw = random.Random(seed)
    size = draw.randint(1, 3)
    racks = {rack: list(range(rack * 10, rack * 10 + size)) for rack in (1, 2, 3)}
    current = {
        TopicPartition("t", k): tuple(draw.choice(racks[rack]) for rack in draw.sample([1, 2, 3], 3))
        for k in range(draw.randint(20, 100))
    }
    staying = {rack * 10 + 5: str(rack) for rack in racks}  # one comes into each rack, and one goes
    staying.update({broker: str(rack) for rack, brokers in racks.items() for broker in brokers[1:]})
    done = after(current, balanced(current, staying))
    assert is_even(done, list(staying))
    assert all(len({staying[b] for b in replicas}) == 3 for replicas in done.values())


def test_two_come_and_one_goes_over_three_racks() -> None:
    """The case of the acceptance: 5 brokers, 100 partitions with 3 replicas, racks; 6 and 7 come, 1 goes."""
    rack = {1: "a", 2: "b", 3: "c", 4: "a", 5: "b", 6: "c", 7: "a"}
    draw = random.Random(7)
    by_rack = [[1, 4], [2, 5], [3]]
    current = {TopicPartition("t", k): tuple(draw.choice(one) for one in by_rack) for k in range(100)}
    staying = [2, 3, 4, 5, 6, 7]
    plan = balanced(current, {broker: rack[broker] for broker in staying})
    done = after(current, plan)
    assert is_even(done, staying)
    assert all(len({rack[b] for b in replicas}) == 3 for replicas in done.values())
    held, _ = counts(current)
    in_racks = held[1] + held[3] - 50 + sum(max(0, held[b] - 50) for b in (2, 4, 5))
    assert copies(current, plan) <= in_racks * 1.1


@pytest.mark.parametrize("seed", [8, 10, 20, 41, 159, *range(5)])
def test_topics_with_fewer_copies_even_out_what_racks_leave_apart(seed: int) -> None:
    """Seven brokers in three racks, of which one goes; only partitions with two copies may change racks."""
    rack = {11: "a", 12: "b", 13: "c", 14: "a", 15: "b", 16: "c", 17: "a"}
    draw = random.Random(seed)
    current = {
        TopicPartition("t" if k < 97 else "two", k): tuple(
            draw.choice([broker for broker in rack if rack[broker] == one])
            for one in draw.sample("abc", 3 if k < 97 else 2)
        )
        for k in range(105)
    }
    staying = {broker: name for broker, name in rack.items() if broker != 11}
    plan = balanced(current, staying)
    done = after(current, plan)
    assert is_even(done, list(staying))
    assert all(len({rack[b] for b in replicas}) == len(replicas) for replicas in done.values())
    assert copies(current, plan) <= fewest_copies(current, list(staying)) * 1.15
