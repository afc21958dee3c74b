"""Positions as JSON, in checkpoints, and against the end of the log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import TopicPartition, Uuid
from barnabas.pipeline.offsets import Positions, lag, read_checkpoint

ID = Uuid(b"0123456789abcdef")
topics = st.text("abc._-", min_size=1, max_size=5)
offsets = st.dictionaries(
    st.builds(TopicPartition, topics, st.integers(0, 99)), st.integers(-2, 2**62), max_size=8
)


@given(
    offsets, st.dictionaries(topics, st.binary(min_size=16, max_size=16).filter(any).map(Uuid), max_size=3)
)
def test_positions_come_back_from_their_text(values: dict, ids: dict) -> None:
    assert Positions.read(Positions(values, ids).text()) == Positions(values, ids)


def test_the_text_is_that_of_sparks_own_connector() -> None:
    positions = Positions({TopicPartition("t", 1): 7, TopicPartition("t", 0): 5}, {})
    assert positions.text() == '{"t":{"0":5,"1":7}}'


def test_ids_of_topics_are_kept_where_the_cluster_has_them() -> None:
    positions = Positions({TopicPartition("t", 0): 5}, {"t": ID, "u": Uuid(16)})
    assert positions.tree() == {"t": {"0": 5}, "@ids": {"t": str(ID)}}


@pytest.mark.parametrize(
    "text", ["", "[]", '{"t": 5}', '{"t": {"x": 5}}', '{"t": {"0": "5"}}', '{"@ids": {"t": "?"}}']
)
def test_what_are_no_offsets_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no offsets"):
        Positions.read(text)


def test_lag_counts_a_partition_that_was_never_read_from_its_beginning() -> None:
    behind = lag({TopicPartition("t", 0): 5}, {TopicPartition("t", 0): 9, TopicPartition("t", 1): 3})
    assert (behind.total, behind.partitions[TopicPartition("t", 1)]) == (7, 3)


def checkpoint(directory: Path, *, batches: int, done: int) -> str:
    (directory / "metadata").write_text('{"id":"q1"}')
    for log in ("offsets", "commits"):
        (directory / log).mkdir()
    for batch in range(batches):
        lines = ["v1", "{}", json.dumps({"t": {"0": 10 * batch}}), "-"]
        (directory / "offsets" / str(batch)).write_text("\n".join(lines))
        (directory / "offsets" / f".{batch}.crc").write_text("")
    for batch in range(done):
        (directory / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return str(directory)


def test_a_checkpoint_says_what_is_planned_and_what_is_done(tmp_path: Path) -> None:
    state = read_checkpoint(checkpoint(tmp_path, batches=12, done=11))
    assert (state.query_id, state.planned, state.done) == ("q1", 11, 10)
    assert state.positions == (Positions({TopicPartition("t", 0): 100}, {}), None)


def test_a_checkpoint_without_a_finished_batch_has_no_positions(tmp_path: Path) -> None:
    assert read_checkpoint(checkpoint(tmp_path, batches=1, done=0)).positions == ()


def test_a_directory_that_is_no_checkpoint_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(BarnabasError, match="not the checkpoint"):
        read_checkpoint(str(tmp_path))


def test_an_offset_log_of_another_version_is_refused(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path, batches=1, done=1)
    (tmp_path / "offsets" / "0").write_text("v2\n{}\n{}")
    with pytest.raises(BarnabasError, match="can read"):
        read_checkpoint(directory)


@pytest.mark.parametrize(
    "content", [b"", b"v1", b"\xff\xfe", b"v1\n{}\n5", b'v1\n{}\n{"logOffset":0}', b'v1\n{}\n{"t":{"0":']
)
def test_a_damaged_checkpoint_or_one_of_another_source_is_told_with_its_file(
    tmp_path: Path, content: bytes
) -> None:
    directory = checkpoint(tmp_path, batches=1, done=1)
    (tmp_path / "offsets" / "0").write_bytes(content)
    with pytest.raises(BarnabasError, match=r"offsets/0 of the checkpoint cannot be read") as caught:
        read_checkpoint(directory)
    assert "checkpointLocation" in (caught.value.next_step or "")


def test_a_file_in_place_of_a_log_of_the_checkpoint_is_told(tmp_path: Path) -> None:
    directory = checkpoint(tmp_path, batches=1, done=0)
    (tmp_path / "commits").rmdir()
    (tmp_path / "commits").touch()
    with pytest.raises(BarnabasError, match="commits of the checkpoint cannot be read"):
        read_checkpoint(directory)
