"""Replicas of which records cannot be read: clients are told, and a replica that others have is fetched anew."""

from __future__ import annotations

import pytest
from tests.broker.harness import Node, batch
from tests.broker.replication import Replicas

from barnabas.errors import ErrorCode
from barnabas.log.log import Log
from barnabas.log.reading import damaged_at
from barnabas.log.segments.damage import DamagedError
from barnabas.model import TopicPartition
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, read_records

WHERE = TopicPartition("t", 0)


def rolled(node: Node) -> Log:
    """Begin a segment in the log of a node."""
    log = node.logs.get(WHERE)
    assert log is not None
    log.roll(node.now)
    node.turn()
    return log


def values(replicas: Replicas, id_: int) -> list[str]:
    """What lies in all segments of a node's log."""
    log = replicas[id_].log
    log.write()
    found: list[str] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20, log.log_end_offset).read()
        for position, header in batches(data):
            found += [(record.value or b"").decode() for record in read_records(data, position, header)]
            offset = header.last_offset + 1
    return found


def in_segments(disk: MemoryDisk) -> Node:
    """A node whose log has four sealed segments, of one batch of two records each."""
    node = Node(disk)
    node.create("t")
    for n in range(4):
        node.append(batch(f"{n}a", f"{n}b"))
        rolled(node)
    return node


def several_segments(replicas: Replicas) -> None:
    for n in range(4):
        answer = replicas.produce(f"{n}a", f"{n}b")
        replicas.settle()
        assert answer.error == ErrorCode.NONE
        for node in replicas.nodes.values():
            rolled(node)
    replicas.settle()
    for node in replicas.nodes.values():
        node.logs.checkpoint_recovery_points()


def test_a_damaged_replica_that_is_not_in_sync_is_fetched_anew_by_itself() -> None:
    replicas = Replicas()
    several_segments(replicas)
    whole = values(replicas, 1)
    assert len(whole) == 8
    replicas.crash(2)
    replicas.fence(2)
    replicas.disks[2].put("/data/t-0/00000000000000000002.log", b"")
    replicas.restart(2)
    assert replicas.nodes[2].outside.anew == ["/data/t-0"]
    assert 2 not in replicas.state.isr and replicas[2].log.log_end_offset == 2, "what lies before it is kept"
    replicas.settle()
    assert values(replicas, 2) == whole and not replicas[2].log.damage
    assert 2 in replicas.state.isr
    replicas.crash(2)
    replicas.restart(2)
    assert replicas.nodes[2].outside.anew == [] and values(replicas, 2) == whole


def test_damage_of_a_replica_that_is_out_of_sync_already_is_fetched_anew_without_a_commit() -> None:
    replicas = Replicas()
    several_segments(replicas)
    replicas.put(isr=(1, 3))
    replicas.cut.add(2)
    node, log = replicas.nodes[2], replicas[2].log
    node.broker.rots(log, damaged_at(log, 2, "a reader met it"), node.now)
    assert log.damage and node.outside.anew == []
    node.broker.maintain(node.now)
    while node.broker.reconciler.ready:
        node.broker.reconciler.step(node.now)
    assert node.outside.anew == ["/data/t-0"] and log.log_end_offset == 2
    replicas.cut.clear()
    replicas.settle()
    assert values(replicas, 2) == values(replicas, 1) and not log.damage


def test_a_damaged_replica_is_kept_as_long_as_it_counts_for_what_is_committed() -> None:
    replicas = Replicas()
    several_segments(replicas)
    replicas.crash(2)
    replicas.disks[2].put("/data/t-0/00000000000000000002.log", b"")
    replicas.restart(2)
    assert 2 in replicas.state.isr and replicas.nodes[2].outside.anew == []
    assert replicas[2].log.log_end_offset == 8
    replicas.put(isr=(1, 3))
    assert replicas.nodes[2].outside.anew == ["/data/t-0"]
    replicas.settle()
    assert values(replicas, 2) == values(replicas, 1)


def test_a_leader_that_met_damage_says_so_once_and_serves_what_it_has() -> None:
    disk = MemoryDisk()
    node = in_segments(disk)
    disk.corrupt("/data/t-0/00000000000000000002.log", 16)
    for _ in range(2):
        assert node.fetch({WHERE: 2}).fetched.error_code == ErrorCode.CORRUPT_MESSAGE
    assert node.outside.damages == [("/data/t-0", 2, 4)] and node.outside.failed == []
    assert node.fetch({WHERE: 0}).fetched.error_code == ErrorCode.NONE
    assert len(node.fetch({WHERE: 4}).fetched.records) > 0
    node.append(batch("more"))
    assert node.fetch({WHERE: 8}).fetched.error_code == ErrorCode.NONE


def test_an_index_that_is_lost_while_the_node_runs_is_told_of_once() -> None:
    disk = MemoryDisk()
    log = rolled(node := in_segments(disk))
    log.segments[1].release()
    disk.remove(log.segments[1].path(".index"))
    for _ in range(2):
        node.fetch({WHERE: 2})
        for _ in range(3):
            node.after(5)
            node.broker.maintain(node.now)
    assert node.outside.remade == [("/data/t-0", ["/data/t-0/00000000000000000002.index"])]


def test_damage_that_a_consumer_meets_again_is_told_of_once() -> None:
    disk = MemoryDisk()
    node = in_segments(disk)
    for _ in range(2):
        node.fetch({WHERE: 4})
    disk.corrupt("/data/t-0/00000000000000000002.log", 75)
    answers = [node.fetch({WHERE: 2}) for _ in range(4)]
    assert answers[-1].fetched.error_code == ErrorCode.CORRUPT_MESSAGE
    assert node.outside.damages == [("/data/t-0", 2, 4)]


def rotten(replicas: Replicas, id_: int) -> None:
    """A bit flips in a sealed segment of a node that runs, and somebody reads there until the node notices."""
    replicas.disks[id_].corrupt("/data/t-0/00000000000000000002.log", 75)
    node, partition = replicas.nodes[id_], replicas[id_]
    with pytest.raises(DamagedError) as found:
        for _ in range(2):
            partition.log.read(2, 1 << 20, 8)
    node.broker.damage_found(partition, found.value, node.now)
    assert node.outside.damages == [("/data/t-0", 2, 4)]


def test_a_leader_that_rots_while_it_runs_hands_over_and_is_fetched_again() -> None:
    replicas = Replicas()
    several_segments(replicas)
    whole = values(replicas, 1)
    rotten(replicas, 1)
    replicas.report(1)
    assert replicas.state.leader != 1 and set(replicas.state.isr) == {2, 3}
    assert replicas.nodes[1].outside.anew == ["/data/t-0"]
    assert replicas[1].log.log_end_offset == 2
    replicas.nodes[1].turn()
    assert list(replicas.nodes[1].broker.lacking) == [replicas[1]]
    replicas.settle()
    assert values(replicas, 1) == whole and not replicas.nodes[1].broker.lacking
    assert replicas.nodes[1].outside.whole == ["/data/t-0"]
    replicas.settle()
    assert set(replicas.state.isr) == {1, 2, 3}


def test_who_asks_what_is_lacking_changes_nothing() -> None:
    replicas = Replicas()
    several_segments(replicas)
    rotten(replicas, 2)
    node, partition = replicas.nodes[2], replicas[2]
    partition.log.truncate_fully_and_start_at(8, node.now)
    assert len(node.broker.lacking) == 1 and list(node.broker.lacking) == [partition]
    assert node.broker.lacking.of(partition) == (8, node.now.mono) and node.outside.whole == []
    node.turn()
    assert not node.broker.lacking and node.outside.whole == ["/data/t-0"]


def test_a_follower_that_rots_leaves_the_in_sync_set_until_it_has_everything_again() -> None:
    replicas = Replicas()
    several_segments(replicas)
    rotten(replicas, 2)
    replicas.report(2)
    assert set(replicas.state.isr) == {1, 3} and replicas.state.leader == 1
    replicas.turn()
    assert 2 not in replicas.state.isr, "the leader's old knowledge of it does not bring it back"
    replicas.settle()
    replicas.settle()
    assert values(replicas, 2) == values(replicas, 1) and 2 in replicas.state.isr


@pytest.mark.parametrize("id_", [1, 2], ids=["leader", "follower"])
def test_a_newest_file_that_was_set_back_while_it_was_written_leaves_no_hole(id_: int) -> None:
    """What is written there next lies where other records belong, and after a start the log would look whole."""
    replicas = Replicas()
    path = "/data/t-0/00000000000000000000.log"
    replicas.produce("0")
    replicas.settle()
    earlier = replicas.disks[id_].peek(path)
    for n in range(1, 4):
        replicas.produce(f"{n}")
        replicas.settle()
    replicas.disks[id_].rewrite(path, earlier)
    answer = replicas.produce("4")
    replicas.settle(2)
    assert [start for _, start, _ in replicas.nodes[id_].outside.damages] == [1]
    replicas.report(id_)
    replicas.settle(20)
    assert set(replicas.state.isr) == {1, 2, 3}
    whole = ["0", "1", "2", "3"] + ["4"] * (answer.error == ErrorCode.NONE)
    assert values(replicas, 1) == values(replicas, 2) == values(replicas, 3) == whole


@pytest.mark.parametrize("used_by", ["a write", "a reader"])
@pytest.mark.parametrize("left", [2.0, 1.5, 0.0, -1], ids=["cut", "cut within a batch", "emptied", "deleted"])
@pytest.mark.parametrize("id_", [1, 2], ids=["leader", "follower"])
def test_a_newest_file_that_was_lost_while_it_was_closed_is_damage_of_its_log_alone(
    id_: int, left: float, used_by: str
) -> None:
    replicas = Replicas()
    path = "/data/t-0/00000000000000000000.log"
    for n in range(4):
        replicas.produce(f"{n}")
        replicas.settle()
    whole, content = ["0", "1", "2", "3"], replicas.disks[id_].peek(path)
    replicas[id_].log.active.rest()
    if left < 0:
        replicas.disks[id_].remove(path)
    else:
        replicas.disks[id_].rewrite(path, content[: int(len(content) * left / 4)])
    if used_by == "a reader":
        replicas.nodes[id_].fetch({WHERE: 3})
    answer = replicas.produce("4")
    replicas.settle(2)
    whole += ["4"] * (answer.error == ErrorCode.NONE)
    outside = replicas.nodes[id_].outside
    assert outside.failed == [] and not replicas[id_].offline
    assert outside.damages == [("/data/t-0", max(int(left), 0), 4)]
    replicas.report(id_)
    replicas.settle(20)
    assert set(replicas.state.isr) == {1, 2, 3}
    assert values(replicas, 1) == values(replicas, 2) == values(replicas, 3) == whole


def test_the_only_replica_goes_on_where_its_newest_file_was_cut() -> None:
    replicas = Replicas((1,))
    replicas.produce("0")
    replicas.settle()
    path = "/data/t-0/00000000000000000000.log"
    earlier = replicas.disks[1].peek(path)
    replicas.produce("1")
    replicas.settle()
    replicas.disks[1].rewrite(path, earlier)
    for value in ("2", "3"):
        answer = replicas.produce(value)
        replicas.settle()
        assert answer.error == ErrorCode.NONE
    log = replicas[1].log
    assert [(one.start, one.end) for one in log.damage] == [(1, 2)]
    assert log.read(2, 1 << 20, 4).read() == replicas.disks[1].peek(path)[len(earlier) :]


def one_behind() -> Replicas:
    """Five records, of which broker 3 has the first: it is cut off, and out of the in-sync set."""
    replicas = Replicas()
    replicas.produce("0")
    replicas.settle()
    replicas.cut.add(3)
    replicas.put(isr=(1, 2))
    for n in range(1, 5):
        replicas.produce(f"{n}")
        replicas.settle(2)
    return replicas


@pytest.mark.parametrize(
    "byte", [7, 12, 15, 66], ids=["offset", "epoch far ahead", "epoch just ahead", "records"]
)
def test_a_leader_looks_at_all_that_a_follower_asks_for_again(byte: int) -> None:
    """What the follower cannot take is not the first batch that it is sent, and others read elsewhere."""
    replicas = one_behind()
    fourth = [at for at, _ in replicas[1].log.segments[0].headers()][3]
    replicas.disks[1].corrupt("/data/t-0/00000000000000000000.log", fourth + byte, flip=1)
    replicas.cut.clear()
    for _ in range(6):
        replicas.settle(1)
        for offset in (0, 1, 2):
            replicas.nodes[1].fetch({WHERE: offset})
    assert [start for _, start, _ in replicas.nodes[1].outside.damages] == [3]
    replicas.report(1)
    assert replicas.state.leader == 2
    replicas.settle(20)
    assert set(replicas.state.isr) == {1, 2, 3}
    assert replicas.values(1) == replicas.values(2) == replicas.values(3) == ["0", "1", "2", "3", "4"]


def test_a_leader_that_began_with_an_epoch_that_fell_lets_no_follower_ask_for_ever() -> None:
    """A start reads the newest segment again, and the batch is the first there."""
    replicas = Replicas()
    replicas.put(leader=1, isr=(1, 2, 3))
    several_segments(replicas)
    replicas.cut.add(3)
    replicas.put(isr=(1, 2))
    replicas.produce("last")
    replicas.settle(2)
    whole = values(replicas, 2)
    replicas.crash(1)
    replicas.disks[1].corrupt("/data/t-0/00000000000000000008.log", 15, flip=replicas[2].log.latest_epoch)
    replicas.restart(1)
    replicas.cut.clear()
    replicas.settle(20)
    assert [start for _, start, _ in replicas.nodes[1].outside.damages] == [8]
    replicas.report(1)
    replicas.settle(20)
    assert replicas.state.leader == 2 and set(replicas.state.isr) == {1, 2, 3}
    assert values(replicas, 1) == values(replicas, 2) == values(replicas, 3) == whole


def test_a_batch_that_claims_offsets_far_ahead_leaves_no_hole_in_a_follower() -> None:
    """Its CRC is right, and nothing follows it: the follower cannot know."""
    replicas = one_behind()
    last = [at for at, _ in replicas[1].log.segments[0].headers()][-1]
    replicas.disks[1].corrupt("/data/t-0/00000000000000000000.log", last + 1, flip=1)
    replicas.cut.clear()
    replicas.settle(12)
    assert [start for _, start, _ in replicas.nodes[1].outside.damages] == [4]
    replicas.report(1)
    replicas.settle(20)
    assert replicas.state.leader == 2 and set(replicas.state.isr) == {1, 2, 3}
    assert replicas.values(1) == replicas.values(2) == replicas.values(3) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("followed_by", [0, 2])
def test_a_batch_of_an_epoch_that_no_leader_had_is_damage(followed_by: int) -> None:
    replicas = Replicas()
    for n in range(4):
        replicas.produce(f"{n}")
        replicas.settle()
    whole = values(replicas, 1)
    at = [at for at, _ in replicas[2].log.segments[0].headers()][3 - followed_by]
    replicas.crash(2)
    replicas.fence(2)
    replicas.disks[2].corrupt("/data/t-0/00000000000000000000.log", at + 12, flip=16)
    replicas.restart(2)
    if followed_by:  # by batches of an earlier epoch: the log ends before it
        assert replicas[2].log.recovery.cut_at == 3 - followed_by
    else:
        assert replicas.nodes[2].outside.anew == ["/data/t-0"]
    replicas.settle(20)
    assert values(replicas, 2) == whole and 2 in replicas.state.isr
    assert replicas[2].log.latest_epoch == replicas[1].log.latest_epoch


def test_the_only_replica_that_can_lead_goes_on_with_what_it_can_read() -> None:
    replicas = Replicas()
    several_segments(replicas)
    for id_ in (2, 3):
        replicas.crash(id_)
        replicas.fence(id_)
    rotten(replicas, 1)
    replicas.report(1)
    assert replicas.state.leader == 1 and replicas.state.isr == (1,)
    assert replicas.nodes[1].outside.anew == []


def test_where_every_replica_lacks_records_none_leaves() -> None:
    replicas = Replicas((1, 2))
    several_segments(replicas)
    rotten(replicas, 1)
    rotten(replicas, 2)
    replicas.report(2)
    replicas.report(1)
    assert replicas.state.leader == 1 and replicas.state.isr == (1, 2), "neither is complete"


def test_a_reader_is_sent_to_look_for_another_leader_and_told_of_damage_if_none_comes() -> None:
    replicas = Replicas()
    several_segments(replicas)
    rotten(replicas, 1)
    leader = replicas.nodes[1]
    assert leader.fetch({WHERE: 2}, version=17).fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    leader.after(6)
    assert leader.fetch({WHERE: 2}, version=17).fetched.error_code == ErrorCode.CORRUPT_MESSAGE


def led_by_a_damaged_one(**settings: str) -> Replicas:
    """Replica 1 came back last after all were down, damaged, and is the only one in sync: it leads again."""
    replicas = Replicas(**settings)
    several_segments(replicas)
    for id_ in (2, 3):
        replicas.put(isr=tuple(member for member in replicas.state.isr if member != id_))
    replicas.crash(1)
    replicas.disks[1].put("/data/t-0/00000000000000000002.log", b"")
    replicas.restart(1)
    return replicas


def test_a_damaged_leader_stands_down_when_others_are_in_sync() -> None:
    replicas = led_by_a_damaged_one()
    assert replicas.state.leader == 1 and replicas.state.isr == (1,)
    assert replicas.nodes[1].outside.stood_down == []
    replicas.put(isr=(1, 3))
    assert "/data/t-0" in replicas.nodes[1].outside.stood_down
    replicas.put(isr=(3,), leader=3)
    assert replicas.nodes[1].outside.anew == ["/data/t-0"]


def test_a_damaged_leader_stays_while_it_would_be_eligible_after_it_left() -> None:
    replicas = led_by_a_damaged_one(min_insync_replicas="2")
    replicas.put(isr=(1, 3))
    assert replicas.nodes[1].outside.stood_down == []
    replicas.put(isr=(1, 2, 3))
    assert "/data/t-0" in replicas.nodes[1].outside.stood_down


def test_a_damaged_replica_is_kept_as_long_as_it_is_eligible() -> None:
    replicas = led_by_a_damaged_one()
    replicas.put(isr=(3,), leader=3, elr=(1,))
    assert replicas.nodes[1].outside.anew == []
    replicas.put(isr=(3,), elr=())
    assert replicas.nodes[1].outside.anew == ["/data/t-0"]


def shorter(replicas: Replicas, id_: int, end: int) -> None:
    """Replica `id_` leads from an older copy of its log, and does not know it."""
    replicas.turn()
    log = replicas[id_].log
    log.truncate_to(end, replicas.nodes[id_].now)
    replicas.put(leader=id_, isr=replicas.state.isr)


def test_nothing_that_was_committed_is_cut_at_the_word_of_a_leader_whose_log_is_short() -> None:
    replicas = Replicas()
    several_segments(replicas)
    whole = values(replicas, 2)
    shorter(replicas, 1, 6)
    replicas.settle()
    assert values(replicas, 2) == values(replicas, 3) == whole
    assert replicas.nodes[2].outside.short_leaders == [(1, 6, 8, True)]
    replicas.report(3)
    assert replicas.state.leader == 3 and set(replicas.state.isr) == {2, 3}
    replicas.report(2)
    assert replicas.state.leader == 3, "what was said of the leader before does not concern this one"
    replicas.settle(20)
    assert values(replicas, 1) == whole and set(replicas.state.isr) == {1, 2, 3}


def test_a_leader_that_went_on_with_a_short_log_has_nothing_cut_either() -> None:
    """The follower's end is in an epoch that both have, and the leader has written beyond it."""
    replicas = Replicas()
    several_segments(replicas)
    whole = values(replicas, 2)
    shorter(replicas, 1, 6)
    replicas.produce("x", "y", "z", at=1, acks=1)
    replicas.settle()
    assert values(replicas, 2) == whole and list(replicas.nodes[2].broker.refusals) == [
        (replicas[2], replicas.state.leader_epoch)
    ]
    replicas.report(2)
    replicas.settle(20)
    assert values(replicas, 1) == values(replicas, 3) == whole


@pytest.mark.parametrize(("elr", "waits"), [((2,), True), ((), False)])
def test_a_replica_that_counts_for_nothing_follows_a_shorter_leader_and_tells(
    elr: tuple[int, ...], waits: bool
) -> None:
    """While it was away another one may have been elected that lacked records, by the operator's word."""
    replicas = Replicas()
    several_segments(replicas)
    replicas.put(isr=(1, 2))
    replicas.cut.add(2)
    shorter(replicas, 1, 6)
    replicas.put(isr=(1,), elr=elr)
    replicas.settle()
    assert (replicas[3].log.log_end_offset == 8) is waits, "one that counts may come back and refuse"
    replicas.settle(40)
    assert replicas[3].log.log_end_offset == 6
    assert replicas.nodes[3].outside.short_leaders == [(1, 6, 8, False)]


def test_who_counts_for_nothing_is_not_in_sync_before_an_eligible_one_came_back_and_refused() -> None:
    """The leader's disk did not keep what it said it had synced, and of the replicas that have it one is away."""
    replicas = Replicas()
    replicas.image.features["eligible.leader.replicas.version"] = 1
    several_segments(replicas)
    whole = values(replicas, 1)
    replicas.cut.add(2)
    shorter(replicas, 1, 6)
    replicas.put(isr=(1,), elr=(2,))
    replicas.settle()
    assert replicas.state.isr == (1,) and replicas.state.elr == (2,)
    replicas.cut.clear()
    replicas.settle(4)
    replicas.report(2)
    replicas.settle(20)
    assert values(replicas, 1) == values(replicas, 2) == values(replicas, 3) == whole


def test_what_was_not_committed_is_cut_as_the_protocol_says() -> None:
    replicas = Replicas()
    several_segments(replicas)
    replicas.cut.update((2, 3))
    replicas.produce("x", at=1, acks=1)
    replicas.turn()
    replicas.put(leader=2, isr=(1, 2, 3))
    replicas.cut.clear()
    replicas.settle()
    assert replicas[1].log.log_end_offset == 8 and replicas.nodes[1].outside.short_leaders == []
