"""A mirror translates offsets so that a reader who goes on there misses nothing and gets nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.client.admin.admin import Admin
from barnabas.client.consumer import Consumer
from barnabas.client.producer import Producer
from barnabas.client.transactional import TransactionalProducer
from barnabas.errors import BarnabasError, ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.jobs.mirror_directory import MirrorDirectory
from barnabas.pipeline.jobs.mirrored_groups import GroupTranslation
from barnabas.pipeline.jobs.mirrored_topics import make_map, make_mirrors
from barnabas.pipeline.jobs.restored_topics import CHECKPOINT, check_targets, own_configs, write_targets
from barnabas.pipeline.sink.offset_map import OffsetRun, SentOffsets, from_bytes, runs_of, to_bytes, translate
from barnabas.testing.cluster import Cluster

GAPS = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=40)


@given(GAPS, st.integers(0, 130))
def test_a_translated_offset_is_that_of_the_first_record_that_is_left_to_read(
    gaps: list[tuple[int, int]], committed: int
) -> None:
    pairs, origin, offset = [], -1, -1
    for there, here in gaps:
        origin, offset = origin + there, offset + here
        pairs.append((origin, offset))
    runs = runs_of(pairs)
    left = [here for there, here in pairs if there >= committed]
    assert translate(runs, committed) == (left[0] if left else pairs[-1][1] + 1)
    where, again = from_bytes(b"a/b/7", to_bytes(runs))
    assert (where, again) == (TopicPartition("a/b", 7), runs)
    assert sum(run.length for run in runs) == len(pairs)


def test_nothing_was_copied_so_nothing_is_translated() -> None:
    assert translate([], 5) is None
    assert runs_of([(5, 0), (6, 1), (9, 2)]) == [OffsetRun(5, 0, 2), OffsetRun(9, 2, 1)]
    with pytest.raises(BarnabasError, match="an offset map cannot be read"):
        from_bytes(b"t/0", b'{"version":2}')


def test_a_mirror_directory_belongs_to_two_clusters_and_their_topics(tmp_path: Path) -> None:
    place = MirrorDirectory(str(tmp_path / "m"))
    assert place.claim("a", "b", {"t": "1"}, {"t": "t"}) == {}
    place.begin({"t": "77"})
    assert MirrorDirectory(place.path).claim("a", "b", {"t": "1"}, {"t": "t"}) == {"t": "77"}
    for source, target, ids in (("x", "b", {"t": "1"}), ("a", "x", {"t": "1"}), ("a", "b", {"t": "2"})):
        with pytest.raises(ConfigError, match="is of another mirror"):
            MirrorDirectory(place.path).claim(source, target, ids, {"t": "t"})
    with pytest.raises(ConfigError, match="would be mirrored to itself"):
        place.claim("a", "a", {"t": "1"}, {"t": "t"})
    (tmp_path / "letter").write_text("dear")
    with pytest.raises(ConfigError, match="is a file"):
        MirrorDirectory(str(tmp_path / "letter")).claim("a", "b", {}, {})
    with pytest.raises(ConfigError, match="holds something else"):
        MirrorDirectory(str(tmp_path)).claim("a", "b", {}, {})


def test_groups_go_on_at_a_mirror_where_they_were_and_are_never_set_back() -> None:
    """Both clusters are one here; the offsets differ, for transactions end in different places."""
    said: list[str] = []
    with Cluster() as node, Admin(node.bootstrap) as admin:
        admin.create_topic("in", partitions=1)
        make_map(admin, "map")
        make_map(admin, "map")
        with Producer(node.bootstrap) as producer:
            for number in range(10):
                producer.send("in", str(number))
        admin.create_topic("out", partitions=1)
        with TransactionalProducer(node.bootstrap, "copy") as copy:
            for batch in (range(4), range(4, 10)):
                with copy.transaction():
                    sent = SentOffsets()
                    for number in batch:
                        sent.add(number, copy.send("out", str(number)))
                    copy.flush()
                    for key, value in sent.records():
                        copy.send("map", value, key)
            with pytest.raises(BarnabasError, match="a row has no offset"):
                sent.add(None, None)  # type: ignore[arg-type]
        groups = GroupTranslation(admin, admin, "map", {"in": "out"}, ["billing", "nobody"])
        admin.set_group_offsets("billing", {TopicPartition("in", 0): 6})
        groups.translate(said.append)

        def copied() -> int | None:
            found = {one.topic: one.committed for one in admin.group_offsets("billing")}
            return found.get("out")

        assert copied() == 7, "after the end of the first transaction"
        with Consumer(node.bootstrap, "out", group="billing", isolation="read_committed", idle=0.5) as reader:
            assert [message.value for message in reader] == [b"6", b"7", b"8", b"9"]
        admin.set_group_offsets("billing", {TopicPartition("out", 0): 9, TopicPartition("in", 0): 7})
        groups.translate(said.append)
        assert copied() == 9, "it has gone on there"
        assert said == []


def test_a_mirrored_topic_is_made_like_its_source_and_refused_when_it_is_another_ones(tmp_path: Path) -> None:
    checkpoint = str(tmp_path / CHECKPOINT)
    with Cluster() as node, Admin(node.bootstrap) as admin:
        admin.create_topic("in", partitions=2, configs={"retention.ms": "777", "segment.bytes": "2000000"})
        topic = admin.describe_topic("in")
        made = make_mirrors(admin, admin, [topic], {"in": "out"}, {}, checkpoint, print)
        configs = own_configs(admin, "out")
        assert (configs["retention.ms"], configs["segment.bytes"]) == ("777", "2000000")
        assert configs["message.timestamp.type"] == "CreateTime"
        admin.add_partitions("in", 3)
        grown = admin.describe_topic("in")
        assert make_mirrors(admin, admin, [grown], {"in": "out"}, made, checkpoint, print) == made
        assert len(admin.describe_topic("out").partitions) == 3
        with Producer(node.bootstrap) as producer:
            producer.send("out", "x")
        with pytest.raises(ConfigError, match="out has records already"):
            make_mirrors(admin, admin, [grown], {"in": "out"}, {}, checkpoint, print)
        with pytest.raises(ConfigError, match="out was deleted since"):
            make_mirrors(admin, admin, [grown], {"in": "out"}, {"out": "another id"}, checkpoint, print)

        write_targets(str(tmp_path), made)
        for goes_on in (
            lambda: make_mirrors(admin, admin, [grown], {"in": "out"}, made, checkpoint, print),
            lambda: check_targets(str(tmp_path), admin),
        ):
            with pytest.raises(BarnabasError, match="is gone, and the topic out has records"):
                goes_on()
        (tmp_path / CHECKPOINT / "offsets").mkdir(parents=True)
        (tmp_path / CHECKPOINT / "offsets" / "0").touch()
        assert make_mirrors(admin, admin, [grown], {"in": "out"}, made, checkpoint, print) == made
        check_targets(str(tmp_path), admin)
        (tmp_path / "targets.json").write_text("[]")
        with pytest.raises(BarnabasError, match="cannot be read"):
            check_targets(str(tmp_path), admin)
