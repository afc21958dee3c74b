"""Entries and records, both ways, held to a metadata log that Apache Kafka wrote."""

from __future__ import annotations

import itertools

import pytest
from tests.controller import kafka

from barnabas.controller.versions import LATEST
from barnabas.errors import CorruptRecordError, NewerReleaseError, WireError
from barnabas.model import Endpoint, ReplicaKey, Uuid
from barnabas.raft.entries import Batch, KraftVersionEntry, LeaderChange, Note, Opaque, VotersEntry
from barnabas.raft.voters import VersionRange, Voter, VoterSet
from barnabas.server.kraft.records import (
    decode_batch,
    encode_batch,
    metadata_of,
    read_snapshot,
    snapshot_batches,
)
from barnabas.wire.control import ControlType, EndTxnMarker, write_control
from barnabas.wire.metadata import ConfigRecord, FeatureLevelRecord, NoOpRecord, TopicRecord, write_record
from barnabas.wire.records import Record, batches, read_batch_header, write_batch
from barnabas.wire.schemas import control_records

VOTERS = VoterSet.of(
    [Voter(ReplicaKey(1, Uuid.of(1, 1)), (Endpoint("CONTROLLER", "h", 9),), VersionRange(0, 1))]
)


def again(batch: Batch) -> Batch:
    """Encoded and decoded."""
    data = bytes(encode_batch(batch, timestamp_ms=7))
    return decode_batch(data, 0, read_batch_header(data))


def test_batches_of_kafka_decoded_and_encoded_again_have_the_same_bytes() -> None:
    data = kafka.read("add-remove.log")
    same = reordered = 0
    for position, header in batches(data):
        batch = decode_batch(data, position, header)
        raw = data[position : position + header.size]
        made = encode_batch(
            Batch(batch.base_offset, batch.epoch, batch.entries), timestamp_ms=header.max_timestamp
        )
        if bytes(made) == raw:
            same += 1
            continue
        # the only freedom is the order of voters: Kafka's is that of a hash table
        assert header.is_control and any(isinstance(entry, VotersEntry) for entry in batch.entries)
        assert sorted(made[61:]) == sorted(raw[61:])
        reordered += 1
    assert same > 250
    assert reordered < same / 10


@pytest.mark.parametrize("name", ["00000000000000000000-0000000000.checkpoint", "bootstrap.checkpoint"])
def test_a_snapshot_of_kafka_is_read_whole(name: str) -> None:
    content = read_snapshot(kafka.read(name))
    assert bool(content.entries) != bool(content.records)


def test_every_entry_comes_back_from_its_record() -> None:
    control = Batch(5, 2, (LeaderChange(1, (1, 2), (1,)), KraftVersionEntry(1), VotersEntry(VOTERS)))
    assert again(control).entries == control.entries
    topic = TopicRecord(name="a", topic_id=Uuid.of(1, 2))
    note = Note("barnabas.quorum.target", "4,5")
    mixed = Batch(8, 2, (Opaque((topic, NoOpRecord()), 2), note, Opaque((NoOpRecord(),), 1)))
    back = again(mixed)
    assert (back.base_offset, back.last_offset, back.epoch) == (8, 11, 2)
    assert [type(entry) for entry in back.entries] == [Opaque, Note, Opaque]
    assert back.entries[1] == note
    assert [type(record) for record in metadata_of(back)] == [
        TopicRecord,
        NoOpRecord,
        ConfigRecord,
        NoOpRecord,
    ]


def test_a_note_is_a_setting_of_all_brokers_that_kafka_can_read_and_is_erased_by_none() -> None:
    [record] = metadata_of(again(Batch(0, 1, (Note("barnabas.quorum.target", None),))))
    assert record == ConfigRecord(
        resource_type=4, resource_name="", name="barnabas.quorum.target", value=None
    )


def test_a_note_under_another_name_would_be_lost_and_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with"):
        encode_batch(Batch(0, 1, (Note("target", "4"),)), timestamp_ms=0)


def test_control_entries_and_records_never_share_a_batch() -> None:
    with pytest.raises(ValueError, match="not both"):
        encode_batch(Batch(0, 1, (KraftVersionEntry(1), Note("a", "b"))), timestamp_ms=0)


def test_a_metadata_log_is_never_read_with_holes() -> None:
    misplaced, value = write_control(ControlType.ABORT, EndTxnMarker(), 0)
    foreign = bytes(write_batch([Record(0, 0, misplaced, value, ())], leader_epoch=1, control=True))
    with pytest.raises(CorruptRecordError, match="a control record ABORT"):
        decode_batch(foreign, 0, read_batch_header(foreign))
    cut = bytes(write_batch([Record(0, 0, None, b"\x01\x02\x00", ())], leader_epoch=1))
    with pytest.raises(WireError):
        decode_batch(cut, 0, read_batch_header(cut))


def _level(name: str, level: int) -> bytes:
    return write_record(FeatureLevelRecord(name=name, feature_level=level))


NEWER = {
    "a type of record": ((None, b"\x01\x7f\x00"), "type 127"),
    "a version of a record": ((None, b"\x01\x0c\x63"), "FeatureLevelRecord has versions 0 to 0, not 99"),
    "a type of control record": ((b"\0\0\0\x63", b"\0\0"), "unknown type"),
    "a level of the metadata": ((None, _level("metadata.version", LATEST + 1)), f"not {LATEST + 1}"),
    "a level of transactions": (
        (None, _level("transaction.version", 3)),
        "transaction.version 0 to 2, not 3",
    ),
    "a feature": ((None, _level("wings.version", 1)), "wings.version 0 to 0, not 1"),
    "a level of the quorum": (
        write_control(ControlType.KRAFT_VERSION, control_records.KRaftVersionRecord(k_raft_version=2), 0),
        "kraft.version 0 to 1, not 2",
    ),
}


@pytest.mark.parametrize("what", NEWER)
def test_what_only_a_newer_release_knows_ends_the_node_by_name_wherever_it_stands(what: str) -> None:
    """A node that went on voting would decide about metadata that it misreads."""
    (key, value), reason = NEWER[what]
    record = Record(0, 0, key, value, ())
    data = bytes(write_batch([record], leader_epoch=1, control=key is not None))
    with pytest.raises(NewerReleaseError, match=reason) as met:
        decode_batch(data, 0, read_batch_header(data))
    assert met.value.fatal and "start a newer release" in (met.value.next_step or "")
    with pytest.raises(NewerReleaseError, match=reason):
        read_snapshot(data)


def test_a_feature_that_is_switched_off_need_not_be_known() -> None:
    data = bytes(write_batch([Record(0, 0, None, _level("wings.version", 0), ())], leader_epoch=1))
    assert decode_batch(data, 0, read_batch_header(data)).end_offset == 1


def snapshot(count: int) -> bytes:
    topics = [TopicRecord(name="x" * 200, topic_id=Uuid.of(1, number)) for number in range(count)]
    made = snapshot_batches(
        topics, epoch=3, stamp=lambda: 9, last_contained_ms=8, voters=VOTERS, kraft_version=1
    )
    return b"".join(made)


def test_a_set_of_voters_that_is_none_is_refused_as_corrupt() -> None:
    """Found by the fuzz target `files`: a voter named twice was an error of its own, which nobody expects."""
    voter = control_records.VotersRecordVoter(voter_id=1, voter_directory_id=Uuid.of(1, 1))
    key, value = write_control(ControlType.KRAFT_VOTERS, control_records.VotersRecord(voters=[voter, voter]))
    data = write_batch([Record(0, 0, key, value, ())], control=True)
    with pytest.raises(CorruptRecordError, match="a set of voters that is none"):
        decode_batch(data, 0, read_batch_header(data))


def test_a_snapshot_comes_back_with_its_voters_its_records_and_its_time() -> None:
    content = read_snapshot(snapshot(3))
    assert content.entries == (KraftVersionEntry(1), VotersEntry(VOTERS))
    assert len(content.records) == 3
    assert content.last_contained_ms == 8


def test_the_notes_in_a_snapshot_are_told_to_the_quorum_too() -> None:
    note = ConfigRecord(resource_type=4, resource_name="", name="barnabas.quorum.target", value="4,5")
    other = ConfigRecord(resource_type=4, resource_name="7", name="barnabas.quorum.target", value="6")
    made = snapshot_batches(
        [note, other], epoch=3, stamp=lambda: 5, last_contained_ms=4, voters=VOTERS, kraft_version=1
    )
    content = read_snapshot(b"".join(made))
    assert content.entries == (
        KraftVersionEntry(1),
        VotersEntry(VOTERS),
        Note("barnabas.quorum.target", "4,5"),
    )
    assert content.records == [note, other]


def test_a_large_snapshot_is_several_batches_with_offsets_that_go_on() -> None:
    data = snapshot(60_000)
    headers = [header for _, header in batches(data)]
    assert len(headers) > 3
    assert all(header.leader_epoch == 3 for header in headers)
    for one, next_ in itertools.pairwise(headers):
        assert next_.base_offset == one.last_offset + 1


def test_a_snapshot_without_its_end_or_with_a_flipped_byte_is_refused() -> None:
    data = snapshot(3)
    for broken in (data[:-1], data[:-75], b"", data[:100] + bytes([data[100] ^ 1]) + data[101:]):
        with pytest.raises(CorruptRecordError):
            read_snapshot(broken)
