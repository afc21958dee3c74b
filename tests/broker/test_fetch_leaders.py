"""Who may fetch, from whom and how fast: the same whether a fetch is taken from its bytes or decoded."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.harness import Answer, Node, batch
from tests.broker.plain_nodes import FOLLOWER, SIZE, WAIT_S, Doorkeeper, Reading, node_for, partition_of, put

from barnabas.broker.requests.reading import Reader
from barnabas.broker.sessions import FetchPosition
from barnabas.errors import ErrorCode, StorageError
from barnabas.log.segments.open_files import OPEN_FILES
from barnabas.model import Now
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.schemas.fetch import FetchRequest

PACKAGE = "org.apache.kafka.common.replica."
"""Of who selects the replica that a consumer reads from."""

# ---- the short way -----------------------------------------------------------------------------------


@pytest.mark.parametrize("offset", [0, 2, 3])
@pytest.mark.parametrize("epoch", [-1, 0, 1, 2])
@pytest.mark.parametrize("last_epoch", [-1, 0, 1, 2])
@pytest.mark.parametrize("state", ["well", "led by another", "offline"])
def test_what_is_told_instead_of_records_is_not_passed_over_where_all_seems_well(
    state: str, last_epoch: int, epoch: int, offset: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(MemoryDisk())
    node.create("t")
    node.change("t", leader_epoch=1)
    node.append(batch("a", "b"))
    partition = partition_of(node)
    if state == "led by another":
        node.change("t", leader=2)
    partition.offline = state == "offline"
    told: list[tuple[Any, Any]] = []
    read = Reader.read

    def both(reader: Reader, position: FetchPosition, left: int, first: bool, fetched: bool, now: Now) -> Any:
        instead = reader._instead(position, partition, now)
        told.append((read(reader, position, left, first, fetched, now), instead))
        return told[-1][0]

    monkeypatch.setattr(Reader, "read", both)
    node.fetch({("t", 0): offset}, epoch=epoch, last_fetched_epoch=last_epoch)
    assert told and all(instead in (None, found) for found, instead in told)


# ---- rights --------------------------------------------------------------------------------------------


def test_a_right_that_is_taken_away_is_missed_until_it_is_given_back(kind: str, way: str) -> None:
    doorkeeper = Doorkeeper()
    node = node_for(kind, way, authorizer=doorkeeper)
    reading = Reading(node, kind, waits=False)
    put(node, 0, 0)
    assert len(reading.batches()) == 2
    doorkeeper.tell(node, strict=True)
    put(node, 0)
    for _ in range(4):
        assert reading.error() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        reading.offsets[0] = 3  # it would say that it has the third record
        reading.error(reading.fetch(all_of_it=True))
    if kind == "follower":
        assert partition_of(node).leading.progress[FOLLOWER].log_end == 0
    doorkeeper.tell(node, strict=False)
    reading.offsets[0] = 2
    assert reading.batches(reading.fetch(all_of_it=True)) == [(0, 2)]
    for number in range(3, 6):
        put(node, 0)
        assert reading.batches() == [(0, number)]


def test_a_waiting_fetch_misses_the_right_that_is_taken_away(kind: str, way: str) -> None:
    doorkeeper = Doorkeeper()
    node = node_for(kind, way, authorizer=doorkeeper)
    reading = Reading(node, kind)
    waiting = reading.fetch()
    doorkeeper.tell(node, strict=True)
    assert not waiting.here
    put(node, 0)
    assert reading.error(waiting) == ErrorCode.TOPIC_AUTHORIZATION_FAILED


# ---- leaders and logs ----------------------------------------------------------------------------------


def test_an_older_leader_epoch_is_fenced_and_a_newer_one_unknown(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    reading.leader_epoch = partition_of(node).leader_epoch
    assert reading.batches() == [(0, 0)]
    node.change("t", leader=1)
    node.turn()
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.FENCED_LEADER_EPOCH
    reading.leader_epoch += 2
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    reading.leader_epoch -= 1
    put(node, 0)
    assert reading.batches(reading.fetch(all_of_it=True)) == [(0, 1)]


def test_a_waiting_fetch_hears_that_its_leader_epoch_is_over(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    reading.leader_epoch = partition_of(node).leader_epoch
    waiting = reading.fetch(all_of_it=True)
    assert not waiting.here
    node.change("t", leader=1)
    node.turn()
    assert reading.error(waiting) == ErrorCode.FENCED_LEADER_EPOCH
    reading.leader_epoch += 1
    waiting = reading.fetch(all_of_it=True)
    assert not waiting.here
    put(node, 0)
    assert reading.batches(waiting) == [(0, 0)]


def test_a_log_that_left_the_leaders_is_told_where(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0, 0, 0)
    assert len(reading.batches()) == 3
    node.change("t", leader=1, leader_epoch=4)
    node.turn()
    put(node, 0, 0)
    reading.last_epoch = 0
    reading.offsets[0] = 4
    answer = reading.fetch(all_of_it=True)
    assert (answer.fetched.diverging_epoch.epoch, answer.fetched.diverging_epoch.end_offset) == (0, 3)
    assert len(answer.fetched.records) == 0
    reading.offsets[0] = 3
    assert reading.batches(reading.fetch(all_of_it=True)) == [(0, 3), (0, 4)]
    reading.last_epoch = 4
    put(node, 0)
    assert reading.batches() == [(0, 5)]


def test_a_last_epoch_that_the_leader_never_had_ends_where_the_one_before_it_does(
    kind: str, way: str
) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0, 0, 0)
    node.change("t", leader=1, leader_epoch=4)
    node.turn()
    put(node, 0)
    reading.last_epoch, reading.offsets[0] = 2, 2
    answer = reading.fetch(all_of_it=True)
    assert (answer.fetched.diverging_epoch.epoch, answer.fetched.diverging_epoch.end_offset) == (0, 3)
    assert len(answer.fetched.records) == 0


def test_a_last_epoch_beyond_the_leaders_is_out_of_range(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    reading.last_epoch = partition_of(node).leader_epoch + 1
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_follower_of_an_older_leader_epoch_moves_no_high_watermark(way: str) -> None:
    node = node_for("follower", way)
    reading = Reading(node, "follower", waits=False)
    put(node, 0, 0)
    node.change("t", leader=1)
    node.turn()
    reading.leader_epoch, reading.offsets[0] = partition_of(node).leader_epoch - 1, 2
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.FENCED_LEADER_EPOCH
    node.turn()
    assert partition_of(node).high_watermark == 0
    reading.leader_epoch += 1
    reading.fetch(all_of_it=True)
    node.turn()
    assert partition_of(node).high_watermark == 2


def test_a_follower_whose_log_left_the_leaders_moves_no_high_watermark(way: str) -> None:
    node = node_for("follower", way)
    reading = Reading(node, "follower", waits=False)
    put(node, 0)
    node.change("t", leader=1, leader_epoch=4)
    node.turn()
    put(node, 0)
    reading.last_epoch, reading.offsets[0] = 0, 2
    answer = reading.fetch(all_of_it=True)
    assert answer.fetched.diverging_epoch.end_offset == 1
    node.turn()
    assert partition_of(node).high_watermark == 0


@pytest.mark.parametrize("offset", [0, 3])
def test_an_offset_outside_the_log_is_out_of_range(kind: str, way: str, offset: int) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0, 0)
    for _ in range(3):
        reading.batches()
        node.turn()
    partition_of(node).delete_records(1)
    reading.offsets[0] = offset
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("waits", [False, True])
def test_who_reads_a_topic_that_is_deleted_is_told_so(kind: str, way: str, waits: bool) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=waits)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    waiting = reading.fetch()
    assert waiting.here is not waits
    topic_id = node.topic_id("t")
    node.delete("t")
    node.turn()
    if waits:
        assert reading.error(waiting) == ErrorCode.UNKNOWN_TOPIC_ID
    node.topic_id = lambda name: topic_id  # type: ignore[method-assign]  # it does not know yet
    for _ in range(3):
        assert reading.error() == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [12, 17])
@pytest.mark.parametrize("kind", ["alone", "session"])
def test_a_consumer_of_a_topic_that_is_made_again_hears_of_its_next_record(
    kind: str, way: str, version: int
) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, version=version)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    node.delete("t")
    node.turn()
    node.create("t")
    reading.offsets[0] = 0
    waiting = reading.fetch(all_of_it=True)
    if waiting.here:  # the session still has the topic of the old id
        errors = {data.error_code for data in waiting.partitions.values()}
        assert errors == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID}
        reading.session, reading.epoch = 0, 0
        waiting = reading.fetch(all_of_it=True)
    assert not waiting.here
    put(node, 0)
    assert reading.batches(waiting) == [(0, 0)]
    for number in range(1, 5):
        put(node, 0)
        assert reading.batches() == [(0, number)]


def test_who_asks_a_node_that_leads_no_longer_is_told_so(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    waiting = reading.fetch()
    assert not waiting.here
    node.change("t", leader=2, replicas=(1, 2), isr=(1, 2))
    node.turn()
    assert reading.error(waiting) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert reading.error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.change("t", leader=1, isr=(1,))
    node.turn()
    put(node, 0)
    assert reading.batches() == [(0, 1)]


def test_a_client_at_the_end_of_a_log_hears_that_its_disk_failed(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind, waits=False)
    put(node, 0)
    for number in range(4):
        assert reading.batches() == ([] if number else [(0, 0)])
    node.broker.storage_failed(partition_of(node), StorageError("the disk is gone"), node.now)
    assert reading.error() == ErrorCode.KAFKA_STORAGE_ERROR
    assert reading.error(reading.fetch(all_of_it=True)) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_client_whose_records_cannot_be_read_is_told_so(kind: str, way: str) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    put(node, 0)
    partition_of(node).log.failed = StorageError("the disk is gone")
    assert reading.error() == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_follower_reads_only_what_is_synced(way: str) -> None:
    node = node_for("follower", way, log_flush_interval_messages="1")
    reading = Reading(node, "follower", waits=False)
    node.produce(batch("x" * 40), acks=1)
    node.write()
    assert reading.batches() == []
    node.sync()
    assert reading.batches() == [(0, 0)]


def of_registration(monkeypatch: pytest.MonkeyPatch, node: Node, epoch: int) -> None:
    """From now on its follower fetches with this broker epoch."""
    ask = type(node).ask

    def asked(request: Any, version: int, client_id: str | None = "test") -> Answer:
        if isinstance(request, FetchRequest):
            request.replica_state.replica_epoch = epoch
        return ask(node, request, version, client_id)

    monkeypatch.setattr(node, "ask", asked)


def test_a_follower_of_an_earlier_life_is_refused(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_for("follower", way)
    of_registration(monkeypatch, node, 5)
    reading = Reading(node, "follower", waits=False)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    assert partition_of(node).leading.progress[FOLLOWER].broker_epoch == 5
    partition_of(node).fetched_by(FOLLOWER, 0, 0, node.now, 6)
    assert reading.error() == ErrorCode.NOT_LEADER_OR_FOLLOWER
    progress = partition_of(node).leading.progress[FOLLOWER]
    assert (progress.broker_epoch, progress.log_end) == (6, 0)


def test_a_session_goes_on_in_another_life_of_its_follower(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_for("follower", way)
    of_registration(monkeypatch, node, 5)
    reading = Reading(node, "follower", waits=False)
    put(node, 0)
    for epoch in (5, 5, 6, 6, 7):
        of_registration(monkeypatch, node, epoch)
        reading.batches()
        reading.batches(reading.fetch(all_of_it=True))
        assert partition_of(node).leading.progress[FOLLOWER].broker_epoch == epoch


def test_a_high_watermark_that_moves_alone_is_told_when_the_time_is_up(way: str) -> None:
    node = node_for("follower", way, replicas=(1, FOLLOWER, 3))
    reading = Reading(node, "follower")
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    for number in range(4):
        waiting = reading.fetch()
        if number == 2:
            node.change("t", isr=(1, FOLLOWER))
            node.turn()
        assert not waiting.here
        node.after(WAIT_S + 0.01)
        rows = waiting.partitions
        assert [row.high_watermark for row in rows.values()] == ([1] if number == 2 else [])


@pytest.mark.parametrize("read_by_clients", [False, True])
def test_only_a_follower_that_clients_read_from_hears_at_once_of_a_high_watermark(
    way: str, read_by_clients: bool
) -> None:
    which = "RackAwareReplicaSelector" if read_by_clients else "LeaderSelector"
    node = node_for("follower", way, replicas=(1, FOLLOWER, 3), replica_selector_class=PACKAGE + which)
    reading = Reading(node, "follower")
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    waiting = reading.fetch()
    node.turn()
    assert not waiting.here
    partition_of(node).fetched_by(3, 1, 0, node.now, -1)
    node.turn()
    assert waiting.here is read_by_clients
    node.after(WAIT_S + 0.01)
    assert waiting.fetched.high_watermark == 1


def test_with_few_descriptors_an_answer_holds_no_slice_of_a_file(
    kind: str, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = node_for(kind, way)
    reading = Reading(node, kind)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    waiting = reading.fetch()
    monkeypatch.setattr(OPEN_FILES, "short", True)
    put(node, 0)
    assert reading.batches(waiting) == [(0, 1)]
    put(node, 0)
    assert reading.batches() == [(0, 2)]


# ---- throttles -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("waits", [False, True])
def test_what_a_follower_in_sync_reads_counts_for_the_throttle_of_all(way: str, waits: bool) -> None:
    node = node_for("follower", way, 2, leader_replication_throttled_rate="100")
    node.configure("t", leader_replication_throttled_replicas="*")
    quota = node.broker.leader_quota
    reading = Reading(node, "follower", partitions=2, waits=waits)
    for number in range(1, 5):
        waiting = reading.fetch() if waits else None
        put(node, number % 2)
        assert len(reading.batches(waiting)) == 1
        assert quota.bytes == number * SIZE
    assert quota.exceeded(node.now)
    node.after(60.0)
    assert not quota.exceeded(node.now)


def test_what_is_not_throttled_does_not_count(way: str) -> None:
    node = node_for("follower", way, leader_replication_throttled_rate="100")
    reading = Reading(node, "follower", waits=False)
    put(node, 0)
    assert reading.batches() == [(0, 0)]
    assert node.broker.leader_quota.bytes == 0


def test_a_follower_that_left_the_in_sync_set_waits_for_the_throttle(way: str) -> None:
    node = node_for("follower", way, leader_replication_throttled_rate="100")
    reading = Reading(node, "follower", waits=False)
    node.configure("t", leader_replication_throttled_replicas="*")
    put(node, *[0] * 3)
    assert len(reading.batches()) == 3
    put(node, 0)
    node.change("t", isr=(1,))
    node.turn()
    assert reading.batches() == []
    node.change("t", isr=(1, FOLLOWER))
    node.turn()
    assert reading.batches() == [(0, 3)]


def test_a_throttle_that_comes_while_a_follower_waits_leaves_it_its_limits(way: str) -> None:
    node = node_for("follower", way, leader_replication_throttled_rate="100")
    reading = Reading(node, "follower", min_bytes=1 << 20, max_bytes=2 * SIZE)
    waiting = reading.fetch()
    node.configure("t", leader_replication_throttled_replicas="*")
    put(node, 0)
    assert not waiting.here
    put(node, 0)
    assert reading.batches(waiting) == [(0, 0), (0, 1)]
    assert node.broker.leader_quota.bytes == 2 * SIZE


def test_partitions_that_are_throttled_take_turns_too(way: str) -> None:
    node = node_for("follower", way, 3, leader_replication_throttled_rate="100")
    node.configure("t", leader_replication_throttled_replicas="*")
    reading = Reading(node, "follower", partitions=3, max_bytes=SIZE)
    put(node, 0, 0, 1, 1, 2, 2)
    for _ in range(6):
        reading.batches()
    assert [index for index, _ in reading.taken] == [0, 1, 2] * 2
