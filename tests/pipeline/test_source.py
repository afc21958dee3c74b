"""The stream and batch readers, driven as Spark drives them, over a cluster that is a dictionary."""

from __future__ import annotations

import pickle

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from barnabas.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model import TopicPartition
from barnabas.pipeline import source
from barnabas.pipeline.options import COLUMNS, SourceOptions
from barnabas.pipeline.plan import DataLossError, Range
from barnabas.pipeline.source import BarnabasSource, BatchReader, RangePartition, StreamReader

from .fake_cluster import FakeCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
GIVEN = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "startingOffsets": "earliest"}


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def stream(cluster: FakeCluster, clock: Time | None = None, **more: str) -> StreamReader:
    options = SourceOptions.parse(GIVEN | more, streaming=True)
    return StreamReader(options, lambda _: cluster, clock or Time())


def batch(cluster: FakeCluster, **more: str) -> BatchReader:
    return BatchReader(SourceOptions.parse(GIVEN | more, streaming=False), lambda _: cluster)


def ends(offsets: dict) -> dict:
    return {topic: numbers for topic, numbers in offsets.items() if topic != "@ids"}


def spans(parts: list) -> list[tuple[str, int, int]]:
    return [(str(part.range.where), part.range.start, part.range.end) for part in parts]


def test_a_stream_goes_from_where_it_starts_to_the_end_of_the_log() -> None:
    reader = stream(FakeCluster({"t": [(2, 9), (0, 5)]}))
    start = reader.initialOffset()
    assert ends(start) == {"t": {"0": 2, "1": 0}}
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert ends(end) == {"t": {"0": 9, "1": 5}}
    assert spans(reader.partitions(start, end)) == [("t-0", 2, 9), ("t-1", 0, 5)]
    assert reader.partitions(end, end) == []
    assert reader.reportLatestOffset() == end


def test_a_stream_takes_at_most_what_is_admitted() -> None:
    reader = stream(FakeCluster({"t": [(0, 60), (0, 40)]}), maxOffsetsPerTrigger="10")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMaxRows(10)
    start = reader.initialOffset()
    assert ends(reader.latestOffset(start, limit)) == {"t": {"0": 6, "1": 4}}
    assert ends(reader.latestOffset(start, ReadAllAvailable())) == {"t": {"0": 60, "1": 40}}


def test_a_stream_waits_for_the_least_it_was_told_but_not_for_ever() -> None:
    cluster, clock = FakeCluster({"t": [(0, 5)]}), Time()
    reader = stream(cluster, clock, minOffsetsPerTrigger="10", maxTriggerDelay="1m")
    limit = reader.getDefaultReadLimit()
    assert limit == ReadMinRows(10)
    start = reader.latestOffset(reader.initialOffset(), limit)
    assert ends(start) == {"t": {"0": 5}}, "the first micro-batch waits for nothing, as in Spark's connector"
    cluster.logs["t"] = [(0, 10)]
    assert reader.latestOffset(start, limit) == start
    clock.now = 59
    assert reader.latestOffset(start, limit) == start
    clock.now = 60
    end = reader.latestOffset(start, limit)
    assert ends(end) == {"t": {"0": 10}}
    cluster.logs["t"] = [(0, 20)]
    assert ends(reader.latestOffset(end, limit)) == {"t": {"0": 20}}


def test_the_least_and_the_most_hold_together() -> None:
    reader = stream(FakeCluster({"t": [(0, 50)]}), minOffsetsPerTrigger="10", maxOffsetsPerTrigger="20")
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert ends(end) == {"t": {"0": 20}}
    end = reader.latestOffset({"t": {"0": 45}}, reader.getDefaultReadLimit())
    assert end == {"t": {"0": 45}}


def test_available_now_stops_at_what_was_there_when_it_began() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    reader = stream(cluster, maxOffsetsPerTrigger="6", minOffsetsPerTrigger="5")
    reader.prepareForTriggerAvailableNow()
    cluster.logs["t"] = [(0, 100), (0, 50)]
    offset, seen = {"t": {"0": 0}}, []
    for _ in range(4):
        offset = reader.latestOffset(offset, reader.getDefaultReadLimit())
        seen.append(ends(offset)["t"])
    assert seen == [{"0": 6}, {"0": 9}, {"0": 9}, {"0": 9}]


def test_available_now_leaves_a_partition_alone_that_appeared_while_it_began() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    reader = stream(cluster)
    reader.prepareForTriggerAvailableNow()
    cluster.logs["t"] = [(0, 100), (0, 50)]
    end = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert ends(end) == {"t": {"0": 9, "1": 0}}


def test_a_partition_that_appears_is_read_from_its_beginning() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    reader = stream(cluster)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.logs["t"] = [(0, 9), (0, 4)]
    end = reader.latestOffset(start, ReadAllAvailable())
    assert spans(reader.partitions(start, end)) == [("t-1", 0, 4)]


def test_a_topic_that_was_created_again_stops_the_query() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    reader = stream(cluster)
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.recreate("t", [(0, 20)])
    with pytest.raises(DataLossError, match="deleted and created again"):
        stream(cluster).latestOffset(start, ReadAllAvailable())


def test_a_topic_that_was_created_again_is_read_from_its_beginning_when_loss_is_accepted() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    reader = stream(cluster, failOnDataLoss="false")
    start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    cluster.recreate("t", [(0, 20)])
    end = reader.latestOffset(start, ReadAllAvailable())
    assert spans(reader.partitions(start, end)) == [("t-0", 0, 20)]
    assert reader.partitions(end, end) == []


def test_a_topic_that_is_gone_stops_the_query_or_is_left_out() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    start = {"t": {"0": 3}}
    del cluster.logs["t"]
    with pytest.raises(DataLossError, match="t-0 is gone"):
        stream(cluster).latestOffset(start, ReadAllAvailable())
    reader = stream(cluster, failOnDataLoss="false")
    assert reader.latestOffset(start, ReadAllAvailable()) == {}
    assert reader.partitions(start, {"t": {"0": 9}}) == []


def test_a_loss_that_is_accepted_is_said_once_for_a_micro_batch_and_again_for_the_next_loss(
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = FakeCluster({"t": [(5, 9), (0, 4)]})
    reader = stream(cluster, failOnDataLoss="false")

    def micro_batch(start: dict) -> tuple[dict, list[str]]:
        caplog.clear()
        end = reader.latestOffset(start, ReadAllAvailable())
        reader.partitions(start, end)
        return end, [record.getMessage() for record in caplog.records]

    end, said = micro_batch({"t": {"0": 2, "1": 1}})
    assert said == ["data loss: t-0 begins at offset 5: 3 offsets from 2 on are gone"]
    assert micro_batch(end) == (end, [])
    cluster.logs["t"] = [(20, 30), (7, 8)]
    _, said = micro_batch(end)
    assert said == [
        "data loss: t-0 begins at offset 20: 11 offsets from 9 on are gone",
        "data loss: t-1 begins at offset 7: 3 offsets from 4 on are gone",
    ]


def test_a_loss_that_is_not_accepted_fails_each_time() -> None:
    reader = stream(FakeCluster({"t": [(5, 9)]}))
    for _ in range(2):
        with pytest.raises(DataLossError, match="begins at offset 5"):
            reader.latestOffset({"t": {"0": 2}}, ReadAllAvailable())


def test_a_batch_that_is_run_again_has_the_same_ranges() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    cluster.logs["t"] = [(0, 1000)]
    assert spans(stream(cluster).partitions({"t": {"0": 3}}, {"t": {"0": 7}})) == [("t-0", 3, 7)]


def test_a_batch_reads_between_its_bounds() -> None:
    cluster = FakeCluster({"t": [(2, 9), (0, 5)]})
    parts = batch(cluster, endingOffsets='{"t": {"0": 7, "1": -1}}').partitions()
    assert spans(parts) == [("t-0", 2, 7), ("t-1", 0, 5)]
    assert len(batch(cluster, minPartitions="6").partitions()) >= 6


@pytest.mark.parametrize("accepted", ["true", "false"])
@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ({"startingOffsets": '{"t":{"0":80}}'}, "start offset 80 of t-0 is after its end offset 9"),
        ({"startingOffsets": '{"t":{"0":8}}', "endingOffsets": '{"t":{"0":4}}'}, "start offset 8 of t-0"),
        (
            {"startingTimestamp": "2", "endingTimestamp": "1"},
            "start offset 7 of t-0 is after its end offset 3",
        ),
    ],
)
def test_a_batch_that_would_start_after_its_end_is_refused_as_in_sparks_connector(
    bounds: dict[str, str], said: str, accepted: str
) -> None:
    cluster = FakeCluster({"t": [(2, 9)]}, times={("t", 0, 1): 3, ("t", 0, 2): 7})
    with pytest.raises(ConfigError, match=said):
        batch(cluster, failOnDataLoss=accepted, **bounds).partitions()


def test_planning_asks_for_the_topics_once_and_for_all_offsets_at_once() -> None:
    cluster = FakeCluster({"t": [(2, 9), (0, 5)]}, times={("t", 0, 1): 3, ("t", 1, 1): 0})
    batch(cluster, startingTimestamp="1").partitions()
    assert cluster.questions == ["topics", "offsets"]
    reader = stream(cluster)
    cluster.questions.clear()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    reader.partitions(start, end)
    assert cluster.questions == ["topics", "offsets"] * 2 + ["offsets"]


def test_what_a_micro_batch_has_done_shows_in_its_group_at_the_next_look() -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    reader = stream(cluster, **{"kafka.group.id": "g"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert cluster.committed == {"g": {T0: 0}}
    for _ in range(3):
        assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert cluster.committed == {"g": {T0: 9}}
    assert cluster.questions.count("commit") == 2, "only news is committed"


def test_a_group_that_refuses_offsets_stops_no_query(caplog: pytest.LogCaptureFixture) -> None:
    cluster = FakeCluster({"t": [(0, 9)]})
    cluster.refuses_groups = True
    reader = stream(cluster, **{"kafka.group.id": "g"})
    assert ends(reader.latestOffset(reader.initialOffset(), ReadAllAvailable())) == {"t": {"0": 9}}
    assert "not shown in group g: the group has members" in caplog.text


@pytest.mark.parametrize(
    "bounds", [{"startingOffsets": '{"t":{"0":1}}'}, {"endingOffsets": '{"t":{"0":12}}'}]
)
def test_a_batch_whose_bounds_are_not_in_the_log_is_refused_or_cut(bounds: dict[str, str]) -> None:
    cluster = FakeCluster({"t": [(2, 9)]})
    with pytest.raises(DataLossError):
        batch(cluster, **bounds).partitions()
    assert spans(batch(cluster, failOnDataLoss="false", **bounds).partitions()) == [("t-0", 2, 9)]


def test_readers_are_pickled_to_the_tasks() -> None:
    options = SourceOptions.parse(GIVEN, streaming=True)
    assert pickle.loads(pickle.dumps(StreamReader(options))).options == options
    assert pickle.loads(pickle.dumps(BatchReader(options))).options == options


def test_the_schema_has_headers_when_they_are_asked_for() -> None:
    assert "headers" not in BarnabasSource(options=dict(GIVEN)).schema()
    assert "headers" in BarnabasSource(options=GIVEN | {"INCLUDEHEADERS": "true"}).schema()


def test_the_schema_has_only_the_columns_that_were_asked_for_in_their_order() -> None:
    source = BarnabasSource(options=GIVEN | {"columns": "Offset, value"})
    assert source.schema() == "struct<value: binary, offset: bigint>"


RECORD = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
AS_JSON = StructType([StructField("a", IntegerType())]).json()


def schema(ddl: dict[str, str]) -> StructType:
    """What Spark hands to a reader: the columns that the source has made, or those of the user's `.schema()`."""
    types = {"binary": BinaryType(), "string": StringType(), "bigint": LongType()}
    return StructType([StructField(name, types[type_]) for name, type_ in ddl.items()])


@pytest.mark.parametrize("wanted", [{"value": "string", "offset": "bigint"}, {"value": "binary"}])
def test_columns_of_the_users_own_are_refused_before_a_task_runs(wanted: dict[str, str]) -> None:
    source = BarnabasSource(options=GIVEN | {"columns": "value, offset"})
    source.reader(schema({"value": "binary", "offset": "bigint"}))
    for reader in (source.reader, source.streamReader):
        with pytest.raises(ConfigError, match="this source makes value binary, offset bigint") as caught:
            reader(schema(wanted))
        assert "leave .schema() out" in (caught.value.next_step or "")


OWN = [
    ("key BINARY NOT NULL", {}, "key is NOT NULL"),
    ("value BINARY NOT NULL", {"columns": "value"}, "value is NOT NULL"),
    ("value twice", {}, "key binary, value binary, value binary"),
    ("headers", {"includeHeaders": "true"}, r"headers\.value is NOT NULL"),
    ("struct", {"valueFormat": "avro", "valueSchema": RECORD}, "in valueSchema"),
    ("struct", {"valueFormat": "json", "valueSchema": "`a` INT"}, "in valueSchema"),
    ("struct", {"valueFormat": "csv", "valueSchema": AS_JSON}, "in valueSchema"),
    ("bytes", {"valueFormat": "json", "valueSchema": "a INT"}, "this source makes key binary, value struct"),
]


def own(kind: str, options: dict[str, str]) -> StructType:
    """The columns of the source with these options, changed by a user's `.schema()`."""
    types = {"binary": BinaryType(), "string": StringType(), "int": IntegerType(), "bigint": LongType()}
    types |= {"timestamp": TimestampType()}
    pair = [StructField("key", StringType()), StructField("value", BinaryType(), nullable=kind != "headers")]
    types["array<struct<key:string,value:binary>>"] = ArrayType(StructType(pair))
    fields = []
    for name in SourceOptions.parse(GIVEN | options, streaming=True).columns:
        type_ = types[COLUMNS[name]]
        if (name, kind) == ("value", "struct"):
            type_ = StructType([StructField("b", IntegerType())])
        fields += [StructField(name, type_, nullable=not kind.startswith(f"{name} BINARY"))] * (
            2 if kind == f"{name} twice" else 1
        )
    return StructType(fields)


@pytest.mark.parametrize(("kind", "options", "said"), OWN)
def test_columns_that_are_not_true_of_the_rows_are_refused_with_what_to_do(
    kind: str, options: dict[str, str], said: str
) -> None:
    source = BarnabasSource(options=GIVEN | options)
    for reader in (source.reader, source.streamReader):
        with pytest.raises(ConfigError, match=said) as caught:
            reader(own(kind, options))
        assert "leave .schema() out" in (caught.value.next_step or "")


def test_columns_in_the_users_own_schema_that_an_option_makes_are_said_as_that_option() -> None:
    source = BarnabasSource(options=dict(GIVEN))
    with pytest.raises(ConfigError) as caught:
        source.reader(schema({"key": "binary", "value": "binary"}))
    assert '.option("columns", "key,value")' in (caught.value.next_step or "")


def test_the_struct_that_the_schema_makes_is_taken_from_schema_too() -> None:
    for options in (
        {
            "valueFormat": "avro",
            "valueSchema": RECORD.replace('"a"', '"b"').replace('"int"', '["null", "int"]'),
        },
        {"valueFormat": "json", "valueSchema": "`b` INT"},
        {"valueFormat": "csv", "valueSchema": AS_JSON.replace('"a"', '"b"')},
    ):
        BarnabasSource(options=GIVEN | options).reader(own("struct", options))


def test_a_wrong_option_is_said_when_the_reader_is_made() -> None:
    with pytest.raises(ConfigError, match="did you mean"):
        BarnabasSource(options=GIVEN | {"maxOffsetPerTrigger": "3"}).streamReader(None)


def test_spark_plans_one_empty_part_when_there_is_nothing_to_read() -> None:
    from pyspark.sql.datasource import InputPartition

    assert list(batch(FakeCluster({})).read(InputPartition(None))) == []


# -- records that go away while a task reads --------------------------------------------------------


def gone(code: ErrorCode) -> KafkaError:
    return KafkaError(code, "gone")


def test_a_task_that_finds_its_records_gone_fails_with_data_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    part = RangePartition(Range(T0, FakeCluster({"t": []}).ids["t"], 3, 9))

    def fetch(*_: object) -> object:
        raise gone(ErrorCode.OFFSET_OUT_OF_RANGE)

    monkeypatch.setattr("barnabas.pipeline.view.fetch", fetch)
    options = SourceOptions.parse(GIVEN, streaming=True)
    with pytest.raises(DataLossError, match="t-0 from offset 3"):
        list(source.read_range(options, part))


def test_a_task_goes_on_behind_the_gap_when_loss_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    options = SourceOptions.parse(GIVEN | {"failOnDataLoss": "false"}, streaming=True)
    wanted = Range(T0, FakeCluster({"t": []}).ids["t"], 3, 9)
    monkeypatch.setattr("barnabas.pipeline.view.ClientView", lambda _: FakeCluster({"t": [(5, 20)]}))
    assert source.after_loss(options, wanted, gone(ErrorCode.OFFSET_OUT_OF_RANGE)) == wanted._replace(start=5)
    monkeypatch.setattr("barnabas.pipeline.view.ClientView", lambda _: FakeCluster({"t": [(9, 20)]}))
    assert source.after_loss(options, wanted, gone(ErrorCode.OFFSET_OUT_OF_RANGE)) is None
    assert source.after_loss(options, wanted, gone(ErrorCode.UNKNOWN_TOPIC_ID)) is None


def test_other_errors_of_a_task_are_its_own() -> None:
    options = SourceOptions.parse(GIVEN | {"failOnDataLoss": "false"}, streaming=True)
    wanted = Range(T0, FakeCluster({"t": []}).ids["t"], 3, 9)
    with pytest.raises(KafkaError, match="gone"):
        source.after_loss(options, wanted, gone(ErrorCode.TOPIC_AUTHORIZATION_FAILED))


VALUES = {"valueFormat": "json", "valueSchema": "a INT", "badRecords": "topic:dead"}


@pytest.mark.parametrize("streaming", [False, True])
def test_a_topic_for_bad_values_that_does_not_exist_is_refused_before_anything_is_read(
    streaming: bool,
) -> None:
    cluster = FakeCluster({"t": [(0, 10)]})
    made = stream(cluster, **VALUES) if streaming else batch(cluster, **VALUES)
    plan = made.prepareForTriggerAvailableNow if isinstance(made, StreamReader) else made.partitions
    with pytest.raises(ConfigError, match="topic:dead: there is no such topic"):
        plan()
    cluster.logs["dead"] = [(0, 0)]
    cluster.ids["dead"] = cluster.ids["t"]
    plan()
