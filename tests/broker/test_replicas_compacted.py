"""Replicas whose logs were compacted, each on its own: they are still replicas of one another."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import batch
from tests.broker.replication import ALL, Replicas

from barnabas.broker.replicas.partition import Partition
from barnabas.log.cleaning.compaction import Compaction
from barnabas.log.cleaning.dirty_range import find_dirty_range
from barnabas.wire.records import read_records

SETTINGS: dict[str, Any] = {"log_cleanup_policy": "compact", "log_cleaner_enable": "false"}


@pytest.fixture
def three() -> Replicas:
    return Replicas(**SETTINGS)


def put(three: Replicas, key: int, value: str) -> None:
    node = three.leader
    node.produce(batch(value, key=b"k%d" % key), acks=-1, timeout_ms=60000, topic_id=three.topic.id)
    three.settle(2)


def roll(three: Replicas, *ids: int) -> None:
    for id_ in ids or ALL:
        three[id_].log.roll(three.nodes[id_].now)
        three[id_].touch()
    three.turn()


def clean(partition: Partition, three: Replicas, id_: int) -> None:
    now = three.nodes[id_].now
    part = find_dirty_range(partition.log, now)
    cleaning = Compaction(partition.log, part, now, memory=1 << 20)
    while not cleaning.finished:
        cleaning.run()
        cleaning.install(now)
    assert cleaning.conclude(), cleaning.failure


def leave(three: Replicas, id_: int) -> None:
    """Nobody hears of it any more, until it is not in sync."""
    three.cut.add(id_)
    three.produce("unsaid", key=b"unsaid")
    three.settle()
    three.after(11)
    three.settle()
    assert id_ not in three.state.isr


def rows(three: Replicas, id_: int) -> list[tuple[bytes | None, str]]:
    """(key, value) of all that may be read of a log."""
    log = three[id_].log
    return [
        (record.key, (record.value or b"").decode())
        for segment in log.segments
        for position, header in segment.headers()
        for record in read_records(segment.file.read_at(position, header.size), 0, header)
        if record.offset >= log.log_start_offset
    ]


def values(three: Replicas, id_: int) -> list[str]:
    return [value for _, value in rows(three, id_)]


def last_values(three: Replicas, id_: int) -> dict[bytes | None, str]:
    return dict(rows(three, id_))


def test_a_replica_that_joins_late_follows_through_the_gaps(three: Replicas) -> None:
    for n in range(12):
        put(three, n % 2, f"v{n}")
    roll(three, 1)
    put(three, 5, "the last")
    clean(three[1], three, 1)
    assert values(three, 1) == ["v10", "v11", "the last"]
    three.crash(3)
    three.disks[3] = type(three.disks[3])(33)  # a disk that is new
    three.restart(3)
    three.settle()
    assert values(three, 3) == ["v10", "v11", "the last"]
    assert three[3].log.log_end_offset == three[1].log.log_end_offset == 13
    assert set(three.state.isr) == {1, 2, 3}


def test_whoever_leads_the_same_values_are_read(three: Replicas) -> None:
    for n in range(12):
        put(three, n % 3, f"v{n}")
    roll(three)
    put(three, 5, "the last")
    for id_ in ALL:
        clean(three[id_], three, id_) if id_ != 2 else None
    for leader in (2, 3, 1, 2):
        three.put(leader=leader)
        three.settle()
        put(three, 9, f"led by {leader}")
        assert {id_: last_values(three, id_)[b"k9"] for id_ in ALL} == dict.fromkeys(ALL, f"led by {leader}")
    expected = {b"k0": "v9", b"k1": "v10", b"k2": "v11", b"k5": "the last", b"k9": "led by 2"}
    assert [last_values(three, id_) for id_ in ALL] == [expected] * 3


@pytest.mark.parametrize("crash", [False, True])
def test_epochs_whose_records_are_all_gone_still_lead_to_where_logs_part(
    three: Replicas, crash: bool
) -> None:
    """Epochs 0 to 3 wrote the same key; a leader that compacted has records of the last one only."""
    for leader in (1, 2, 3, 1):
        three.put(leader=leader)
        three.settle()
        put(three, 1, f"led by {leader}")
    roll(three)
    put(three, 2, "the end")
    clean(three[1], three, 1)
    if crash:
        three.crash(1)
        three.restart(1)
        three.settle()
        three.put(leader=1)
        three.settle()
    epochs = three[1].log.epochs.entries()
    assert len(epochs) >= 4
    three.crash(2)
    three.restart(2)
    three.put(leader=1)
    put(three, 3, "more")
    three.settle()
    assert last_values(three, 2) == last_values(three, 1) == last_values(three, 3)
    assert set(three.state.isr) == {1, 2, 3}


def test_a_follower_in_the_middle_of_what_is_gone_goes_on_behind_it(three: Replicas) -> None:
    for n in range(4):
        put(three, 1, f"v{n}")
    leave(three, 3)
    for n in range(4, 20):
        put(three, 1, f"v{n}")
    roll(three, 1, 2)
    put(three, 1, "v20")
    clean(three[1], three, 1)
    assert three[3].log.log_end_offset == 4
    three.cut.clear()
    three.settle(20)
    assert set(three.state.isr) == {1, 2, 3}
    assert values(three, 3) == ["v0", "v1", "v2", "v3", "unsaid", "v19", "v20"]
    three.put(leader=3)
    three.settle()
    put(three, 1, "v21")
    assert [last_values(three, id_) for id_ in ALL] == [{b"k1": "v21", b"unsaid": "unsaid"}] * 3


def test_a_follower_cut_back_into_what_it_compacted_makes_it_dirty_again(three: Replicas) -> None:
    for n in range(6):
        put(three, n % 2, f"v{n}")
    roll(three)
    put(three, 7, "x")
    clean(three[2], three, 2)
    log = three[2].log
    assert log.compacted_offset == 6
    log.truncate_to(3, three.nodes[2].now)
    log.sync()
    assert log.compacted_offset == 3
    three.crash(2)
    three.restart(2)
    three.settle()
    assert three[2].log.log_end_offset == 7
    assert find_dirty_range(three[2].log, three.nodes[2].now).first_dirty <= 3
    assert last_values(three, 2) == last_values(three, 1)


def test_a_follower_out_of_range_of_a_leader_whose_segments_went_begins_at_its_start(three: Replicas) -> None:
    for n in range(4):
        put(three, n, f"v{n}")
    leave(three, 3)
    for n in range(4, 12):
        put(three, n, f"v{n}")
    roll(three, 1, 2)
    put(three, 50, "end")
    for id_ in (1, 2):
        three[id_].log.increment_log_start(9)
        clean(three[id_], three, id_)
        three[id_].log.retain(three.nodes[id_].now)
    three.cut.clear()
    three.settle(20)
    assert three[3].log.log_start_offset == 9
    assert values(three, 3) == ["v8", "v9", "v10", "v11", "end"]
    assert set(three.state.isr) == {1, 2, 3}
