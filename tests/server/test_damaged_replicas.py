"""A whole cluster, and a node on whose disk records were damaged while it was down."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from tests.server.virtual import Virtual

from barnabas.broker.replicas.partition import Partition
from barnabas.broker.watching import STATE
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.log.log import Log
from barnabas.sim.cluster.setup import DIRECTORIES
from barnabas.wire.records import Record, write_batch
from barnabas.wire.schemas.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.wire.schemas.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.wire.schemas.reassignment import ElectLeadersRequest, TopicPartitions

RECORDS = 12


def partition_of(cluster: Virtual, id_: int) -> Partition:
    broker = cluster[id_].broker
    assert broker is not None
    partition = broker.partition("t", 0)
    assert partition is not None
    return partition


def log_of(cluster: Virtual, id_: int) -> Log:
    return partition_of(cluster, id_).log


def fill(cluster: Virtual) -> None:
    """Twelve records, a segment for each three of them on every node."""
    cluster.until(lambda: {cluster.end(id_, "t") for id_ in (1, 2, 3)} == {0})
    produce(cluster, 0, RECORDS)
    cluster.run(70)  # the recovery points are written down


def produce(cluster: Virtual, first: int, end: int) -> None:
    """Records that every node has; each third begins a segment."""
    for number in range(first, end):
        data = [PartitionProduceData(records=write_batch([Record(0, 1, None, b"%d" % number, ())]))]
        topic = TopicProduceData(topic_id=cluster.image.topics_by_name["t"].id, partition_data=data)
        request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
        answer: Any = cluster.ask(request, at=cluster.state("t").leader)
        assert not answer.responses[0].partition_responses[0].error_code
        cluster.until(lambda: {cluster.end(id_, "t") for id_ in (1, 2, 3)} == {number + 1})  # noqa: B023
        if number % 3 == 2:
            for id_ in (1, 2, 3):
                log_of(cluster, id_).roll(cluster[id_].clock.now())


def empty_a_segment(cluster: Virtual, id_: int) -> None:
    cluster[id_].disk.put(f"{DIRECTORIES[0]}/t-0/{3:020d}.log", b"")


def is_whole(cluster: Virtual, id_: int, count: int = RECORDS) -> bool:
    log = log_of(cluster, id_)
    return not log.damage and log.log_end_offset == count and sum(b.count for b in log.batches()) == count


def in_sync(cluster: Virtual) -> tuple[int, ...]:
    """The in-sync replicas, as far as a node that runs knows of them."""
    image = cluster.world.image
    state = None if image is None else image.partition("t", 0)
    return () if state is None else state.isr


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_node_whose_segment_was_emptied_hands_over_and_fetches_its_replica_anew(how: str) -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        leader = cluster.state("t").leader
        getattr(cluster, how)(leader)
        cluster.until(lambda: cluster.state("t").leader not in (leader, -1))
        empty_a_segment(cluster, leader)
        cluster.start(leader)
        cluster.until(lambda: leader in cluster.state("t").isr and is_whole(cluster, leader), 60)


@pytest.mark.parametrize("damaged_one_comes", ["first", "last"])
def test_when_all_were_down_the_damaged_one_is_fetched_anew_from_the_others(damaged_one_comes: str) -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        damaged = cluster.state("t").leader
        for id_ in (1, 2, 3):
            cluster.kill(id_)
        empty_a_segment(cluster, damaged)
        last = damaged if damaged_one_comes == "last" else max({1, 2, 3} - {damaged})
        for id_ in {1, 2, 3} - {last}:
            cluster[id_].start()
        # Who is back after a crash is in sync no more.
        cluster.until(lambda: in_sync(cluster) == (last,), 60)
        cluster[last].start()
        cluster.until(lambda: all(cluster[id_].serves for id_ in (1, 2, 3)), 60)
        cluster.until(lambda: cluster.state("t").leader not in (damaged, -1), 20)
        cluster.until(lambda: is_whole(cluster, damaged), 90)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 90)
        assert all(is_whole(cluster, id_) for id_ in (1, 2, 3))


@pytest.mark.parametrize("damaged_one_comes", ["first", "last"])
@pytest.mark.parametrize("which", ["first", "last"])
@pytest.mark.parametrize("min_insync", ["1", "2"])
def test_a_bit_in_the_newest_segment_of_one_replica_costs_nothing_when_all_are_killed(
    which: str, damaged_one_comes: str, min_insync: str
) -> None:
    """Its end may look torn; others have what is missing, and lead."""
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3], min_insync_replicas=min_insync)
        fill(cluster)
        produce(cluster, RECORDS, RECORDS + 2)  # no recovery point is written after these
        damaged = cluster.state("t").leader
        size = log_of(cluster, damaged).segments[-1].file.size()
        position = size // 2 - 1 if which == "first" else size - 1
        for id_ in (1, 2, 3):
            cluster.kill(id_)
        cluster[damaged].disk.corrupt(f"{DIRECTORIES[0]}/t-0/{RECORDS:020d}.log", position, flip=1)
        others = sorted({1, 2, 3} - {damaged})
        order = [damaged, *others] if damaged_one_comes == "first" else [*others, damaged]
        for id_ in order:
            cluster[id_].start()
            cluster.run(0.5)
        cluster.until(lambda: all(cluster[id_].serves for id_ in (1, 2, 3)), 60)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 90)
        assert all(is_whole(cluster, id_, RECORDS + 2) for id_ in (1, 2, 3))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_disk_that_did_not_keep_what_it_had_synced_costs_nothing_when_all_are_killed(place: int) -> None:
    """Nothing on it shows that records are gone; others have them, and lead."""
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3], min_insync_replicas="2")
        fill(cluster)
        liar = cluster[3]
        liar.disk.lying, liar.disk.honest = True, ("/__cluster_metadata-0",)
        produce(cluster, RECORDS, RECORDS + 2)
        for id_ in (1, 2):
            cluster.kill(id_)
        liar.power_cut("all")
        liar.disk.lying = False
        order = [1, 2]
        order.insert(place, 3)
        for id_ in order:
            cluster[id_].start()
            cluster.run(0.5)
        cluster.until(lambda: all(cluster[id_].serves for id_ in (1, 2, 3)), 60)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 90)
        assert all(is_whole(cluster, id_, RECORDS + 2) for id_ in (1, 2, 3))


def consume(cluster: Virtual, offset: int) -> int:
    """The error with which the leader answers a consumer that asks for this offset."""
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic_id=cluster.image.topics_by_name["t"].id, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, topics=[topic])
    answer: Any = cluster.ask(request, at=cluster.state("t").leader)
    return int(answer.responses[0].partitions[0].error_code)


@pytest.mark.parametrize(("base", "reads"), [(3, 2), (RECORDS, 9)], ids=["sealed", "newest"])
def test_a_leader_whose_records_rot_while_it_runs_hands_over_and_fetches_them_again(
    base: int, reads: int
) -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        produce(cluster, RECORDS, RECORDS + 2)
        leader = cluster.state("t").leader
        cluster[leader].disk.corrupt(f"{DIRECTORIES[0]}/t-0/{base:020d}.log", 68, flip=1)
        errors = [consume(cluster, base) for _ in range(reads)]
        assert set(errors) <= {ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER}
        assert errors[-1] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        cluster.until(lambda: cluster.state("t").leader not in (leader, -1), 1)
        assert consume(cluster, base) == ErrorCode.NONE
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 30)
        assert all(is_whole(cluster, id_, RECORDS + 2) for id_ in (1, 2, 3))


@pytest.mark.parametrize("base", [3, RECORDS], ids=["sealed", "newest"])
def test_a_leader_whose_file_was_cut_while_it_runs_hands_over(base: int) -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        produce(cluster, RECORDS, RECORDS + 2)
        leader = cluster.state("t").leader
        file = cluster[leader].disk.open(f"{DIRECTORIES[0]}/t-0/{base:020d}.log")
        file.truncate(80)
        file.close()
        with suppress(BarnabasError):  # the connection may end, as its answer cannot be sent
            consume(cluster, base + 1)
        cluster.until(lambda: cluster.state("t").leader not in (leader, -1), 1)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 30)
        assert all(is_whole(cluster, id_, RECORDS + 2) for id_ in (1, 2, 3))


@pytest.mark.parametrize("base", [9, RECORDS], ids=["sealed", "newest"])
def test_a_follower_that_must_read_where_the_leader_rots_is_not_stuck(base: int) -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        produce(cluster, RECORDS, RECORDS + 2)
        leader = cluster.state("t").leader
        behind = min({1, 2, 3} - {leader})
        cluster.stop(behind)
        cluster.until(lambda: behind not in cluster.state("t").isr)
        cluster[behind].disk.put(f"{DIRECTORIES[0]}/t-0/{base:020d}.log", b"")
        cluster[leader].disk.corrupt(f"{DIRECTORIES[0]}/t-0/{base:020d}.log", 68, flip=1)
        cluster.start(behind)
        cluster.until(lambda: cluster.state("t").leader not in (leader, -1), 30)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 60)
        assert all(is_whole(cluster, id_, RECORDS + 2) for id_ in (1, 2, 3))


@pytest.mark.parametrize("base", [3, RECORDS], ids=["sealed", "newest"])
@pytest.mark.parametrize("fault", ["deleted", "replaced", "bit"])
def test_what_happens_to_a_file_that_is_used_is_found_in_half_a_minute_without_a_reader_who_checks(
    base: int, fault: str
) -> None:
    """A consumer reads there once, and checks nothing; or records are appended."""
    with Virtual(barnabas_scrub_interval_ms="604800000") as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        produce(cluster, RECORDS, RECORDS + 1)
        leader, end = cluster.state("t").leader, RECORDS + 1
        disk, path = cluster[leader].disk, f"{DIRECTORIES[0]}/t-0/{base:020d}.log"
        if fault == "deleted":
            disk.remove(path)
        elif fault == "replaced":
            disk.replace(path, b"x" * disk.size(path))
        else:
            disk.corrupt(path, 68, flip=1)
        if base == RECORDS:
            end = append(cluster, end)
        else:
            consume(cluster, base)
        cluster.until(lambda: cluster.state("t").leader not in (leader, -1), 30)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 30)
        cluster.until(lambda: all(is_whole(cluster, id_, end) for id_ in (1, 2, 3)), 5)


def test_a_partition_that_nobody_can_lead_is_told_of_and_recovered_by_an_operators_word() -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3], min_insync_replicas="1")
        fill(cluster)
        leader, end = cluster.state("t").leader, RECORDS
        others = sorted({1, 2, 3} - {leader})
        for id_ in others:
            cluster.stop(id_)
            cluster.until(lambda: id_ not in in_sync(cluster))  # noqa: B023
            end = append(cluster, end)
        cluster.kill(leader)
        for id_ in others:
            cluster[id_].start()
        cluster.until(lambda: all(cluster[id_].serves for id_ in others), 60)
        cluster.until(lambda: cluster.state("t").leader == -1, 60)
        cluster.run(5)
        asked = [TopicPartitions(topic="t", partitions=[0])]
        request = ElectLeadersRequest(election_type=101, topic_partitions=asked)
        answer: Any = cluster.ask(request, at=others[0])
        rows = answer.replica_election_results[0].partition_result[0].replicas
        assert {row.broker_id: row.end_offset for row in rows} == {
            leader: -1,
            others[0]: RECORDS,
            others[1]: RECORDS + 1,
        }
        assert [row.broker_id for row in rows if row.leads] == [others[1]]
        assert cluster.elect("t", unclean=True) == ErrorCode.NONE
        assert cluster.state("t").leader == others[1]


def test_a_leader_whose_log_is_shorter_than_what_was_committed_is_deposed() -> None:
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        leader = cluster.state("t").leader
        log_of(cluster, leader).truncate_to(RECORDS - 2, cluster[leader].clock.now())
        partition_of(cluster, leader).moves(STATE)
        cluster.until(lambda: cluster.state("t").leader not in (leader, -1), 5)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 30)
        assert all(is_whole(cluster, id_) for id_ in (1, 2, 3))


@pytest.mark.parametrize("written_down", [True, False], ids=["below", "above"])
def test_a_bit_in_a_busy_leaders_newest_segment_is_found_by_the_follower_that_reads_there(
    written_down: bool,
) -> None:
    """Others read and write all the time; the bit lies below the recovery point of the checkpoint, or above."""
    with Virtual() as cluster:
        cluster.create("t", [1, 2, 3])
        fill(cluster)
        leader = cluster.state("t").leader
        behind = min({1, 2, 3} - {leader})
        produce(cluster, RECORDS, RECORDS + 1)
        cluster.stop(behind)
        cluster.until(lambda: behind not in cluster.state("t").isr)
        end = RECORDS + 1
        for _ in range(2):
            end = append(cluster, end)
        if written_down:
            cluster.run(70)
        position = log_of(cluster, leader).segments[-1].file.size() - 1
        cluster[leader].disk.corrupt(f"{DIRECTORIES[0]}/t-0/{RECORDS:020d}.log", position, flip=1)
        cluster[behind].start()

        def goes_on() -> bool:
            nonlocal end
            end = append(cluster, end)
            consume(cluster, end - 1)
            return cluster.state("t").leader not in (leader, -1)

        begun = cluster.world.time
        while not goes_on():
            assert cluster.world.time < begun + 15
            cluster.run(0.02)
        cluster.until(lambda: set(cluster.state("t").isr) == {1, 2, 3}, 30)
        end = max(log_of(cluster, id_).log_end_offset for id_ in (1, 2, 3))
        cluster.until(lambda: all(is_whole(cluster, id_, end) for id_ in (1, 2, 3)), 5)


def append(cluster: Virtual, end: int) -> int:
    """One record more, which the in-sync replicas have; where the log ends then, if it is acknowledged."""
    data = [PartitionProduceData(records=write_batch([Record(0, 1, None, b"%d" % end, ())]))]
    topic = TopicProduceData(topic_id=cluster.image.topics_by_name["t"].id, partition_data=data)
    request = ProduceRequest(acks=-1, timeout_ms=60_000, topic_data=[topic])
    answer: Any = cluster.ask(request, at=cluster.state("t").leader)
    return end if answer.responses[0].partition_responses[0].error_code else end + 1
