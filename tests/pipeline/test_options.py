"""Options: the names of Spark's own connector, checked before anything is read."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.errors import ConfigError
from barnabas.model import TopicPartition
from barnabas.pipeline.options import EARLIEST, LATEST, Bound, SourceOptions
from barnabas.pipeline.sink.options import SinkOptions
from barnabas.pipeline.values.options import ValueOptions
from barnabas.pipeline.values.shapes import struct_ddl

GIVEN = {"kafka.bootstrap.servers": "a:9092", "subscribe": "flights, weather"}


def stream(**more: str) -> SourceOptions:
    return SourceOptions.parse(GIVEN | more, streaming=True)


def batch(**more: str) -> SourceOptions:
    return SourceOptions.parse(GIVEN | more, streaming=False)


def test_topics_are_separated_by_commas() -> None:
    assert stream().topics == ("flights", "weather")


def test_names_are_taken_in_any_case() -> None:
    assert stream(MAXOFFSETSPERTRIGGER="7").max_offsets == 7


def test_a_stream_starts_at_the_end_and_a_batch_at_the_beginning() -> None:
    assert stream().start == Bound(everywhere=LATEST)
    assert batch().start == Bound(everywhere=EARLIEST)
    assert batch().end == Bound(everywhere=LATEST)


def test_offsets_come_as_json_per_topic_and_partition() -> None:
    start = stream(startingOffsets='{"flights": {"0": 5, "1": -2}}').start
    assert start.offsets == {TopicPartition("flights", 0): 5, TopicPartition("flights", 1): -2}


def test_a_timestamp_wins_over_offsets() -> None:
    assert (
        stream(startingTimestamp="1700000000000", startingOffsets="earliest").start.timestamp == 1700000000000
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("subscibe", "x", "did you mean subscribe"),
        ("kafka.bootstrap.server", "x", "did you mean kafka.bootstrap.servers"),
        ("kafka.auto.offset.reset", "earliest", "cannot be set"),
        ("maxOffsetsPerTrigger", "many", "whole number"),
        ("maxOffsetsPerTrigger", "0", "from 1 to"),
        ("maxOffsetsPerTrigger", str(2**63), "from 1 to 9223372036854775807"),
        ("maxOffsetsPerTrigger", "9" * 5000, "from 1 to"),
        ("kafka.max.partition.fetch.bytes", str(2**31), "from 1 to 2147483647"),
        ("startingTimestamp", "-1", "from 0 to"),
        ("startingTimestamp", "1.5", "from 0 to"),
        ("startingTimestamp", "2026-11-28", "of milliseconds since 1970, from 0 to"),
        ("startingTimestamp", str(2**63), "from 0 to 9223372036854775807"),
        ("startingOffsetsByTimestamp", '{"flights": {"0": -1}}', "-1 is no time"),
        ("startingOffsetsByTimestamp", '{"flights": {"0": "now"}}', "milliseconds since 1970"),
        ("startingOffsetsByTimestamp", '{"flights": {"0": 9223372036854775808}}', "milliseconds since 1970"),
        ("startingOffsets", '{"flights": {"0": 9223372036854775808}}', "no offsets"),
        ("startingOffsets", '{"flights": {"1_0": 5}}', "no offsets"),
        ("startingOffsets", "[" * 100_000, "no offsets"),
        ("failOnDataLoss", "maybe", "true or false"),
        ("startingOffsets", "soon", "no offsets"),
        ("startingOffsets", '{"flights": {"0": -3}}', "-3"),
        ("startingOffsets", '{"flights": {"0": true}}', "no offsets"),
        ("endingOffsets", "latest", "no end"),
        ("kafka.isolation.level", "serializable", "read_uncommitted or read_committed"),
        ("kafka.security.protocol", "SASL_SSL", "sasl.mechanism is missing"),
        ("kafka.security.protocol", "TLS", "it is one of"),
        ("kafka.sasl.pasword", "x", "unknown security option"),
        ("kafka.sasl.password", "x", "no effect with security.protocol=PLAINTEXT"),
        ("maxTriggerDelay", "soon", "500ms"),
        ("assign", '{"flights": [0]}', "exactly one"),
        ("minPartitions", "-1", "whole number"),
        ("columns", "value,offsets", "there is no column offsets"),
        ("columns", ",", "names no column"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_reason(name: str, value: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        stream(**{name: value})
    assert f"{caught.value}\n{caught.value.next_step}".count(said) == 1, (
        "said once, by the error or its next step"
    )


@pytest.mark.parametrize(
    ("time", "year"),
    [(1_700_000_000, 1970), (1_700_000_000_000_000, 55840), (0, None), (1_700_000_000_000, None)],
)
def test_a_time_that_is_hardly_meant_in_milliseconds_is_told_with_its_year(
    time: int, year: int | None, caplog: pytest.LogCaptureFixture
) -> None:
    assert stream(startingTimestamp=str(time)).start.timestamp == time
    by_partition = stream(startingOffsetsByTimestamp=f'{{"flights": {{"0": {time}}}}}').start
    assert by_partition.timestamps == {TopicPartition("flights", 0): time}
    assert caplog.text.count(f"={time} is in the year {year}:") == (0 if year is None else 2)


def test_exactly_one_way_to_choose_partitions_is_needed() -> None:
    with pytest.raises(ConfigError, match="none is given"):
        SourceOptions.parse({"kafka.bootstrap.servers": "a:9092"}, streaming=True)


def test_the_bootstrap_servers_are_needed() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap\.servers is missing"):
        SourceOptions.parse({"subscribe": "t"}, streaming=True)


def test_partitions_are_assigned_by_number() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "assign": '{"b": [1, 0], "a": [2]}'}
    assert SourceOptions.parse(given, streaming=True).assigned == (("a", 2), ("b", 0), ("b", 1))


@pytest.mark.parametrize(
    "text",
    [
        *("[0]", '{"t": 0}', "{}", "x", '{"t": [0.5]}', '{"t": [true]}', '{"t": ["0"]}', '{"t": "01"}'),
        *('{"t": {"0": 5}}', '{"t": [-1]}', '{"t": [[0]]}'),
    ],
)
def test_an_assignment_that_names_no_partition_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="assign"):
        SourceOptions.parse({"kafka.bootstrap.servers": "a:1", "assign": text}, streaming=True)


def test_a_pattern_must_be_a_regular_expression() -> None:
    with pytest.raises(ConfigError, match="regular expression"):
        SourceOptions.parse({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, streaming=True)


def test_settings_of_a_consumer_that_do_nothing_here_are_said() -> None:
    assert stream(**{"kafka.session.timeout.ms": "1000"}).without_effect == ("kafka.session.timeout.ms",)


def test_options_of_somebody_else_are_passed_over_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    foreign = {
        "kafka.retry.backoff.max.ms": "9",
        "mergeSchema": "true",
    }
    options = stream(**foreign)
    assert options.without_effect == tuple(sorted(foreign))
    [record] = caplog.records
    assert all(name in record.getMessage() for name in foreign)


def test_columns_are_those_of_sparks_connector_in_its_order() -> None:
    assert stream().columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert stream(includeHeaders="true").columns[-1] == "headers"
    assert stream(columns="headers, KEY").columns == ("key", "headers")
    with pytest.raises(ConfigError, match="leaves headers out"):
        stream(columns="key", includeHeaders="true")


def test_the_least_may_not_be_more_than_the_most() -> None:
    with pytest.raises(ConfigError, match="is more than"):
        stream(minOffsetsPerTrigger="10", maxOffsetsPerTrigger="9")


def test_a_batch_that_reads_nothing_by_its_bounds_is_refused() -> None:
    with pytest.raises(ConfigError, match="startingOffsets"):
        batch(startingOffsets="latest")
    with pytest.raises(ConfigError, match="startingOffsets"):
        batch(startingOffsets='{"flights": {"0": 3, "1": -1}}')
    with pytest.raises(ConfigError, match="endingOffsets"):
        batch(endingOffsets="earliest")
    with pytest.raises(ConfigError, match="earliest"):
        batch(endingOffsets='{"flights": {"0": -2}}')


def test_delays_are_read_with_their_unit() -> None:
    assert [stream(maxTriggerDelay=text).max_delay for text in ("500ms", "10s", "15m", "1h")] == [
        0.5,
        10,
        900,
        3600,
    ]


@pytest.mark.parametrize("name", ["partition", "key", "headers", "timestamp"])
def test_what_a_column_says_to_the_sink_cannot_be_an_option(name: str) -> None:
    """Passed over, `partition=7` would send rows somewhere else than was said."""
    with pytest.raises(ConfigError, match=f"option {name} cannot be set") as caught:
        SinkOptions.parse({"kafka.bootstrap.servers": "a:1", "topic": "t", name: "7"})
    assert "it is a column of the rows" in (caught.value.next_step or "")


@pytest.mark.parametrize("name", ["keyFormat", "keyschema", "keySubject"])
@pytest.mark.parametrize(
    "parse", [stream, lambda **given: SinkOptions.parse({"kafka.bootstrap.servers": "a:1"} | given)]
)
def test_what_is_asked_of_keys_is_refused_by_name_and_not_passed_over(name: str, parse: Any) -> None:
    with pytest.raises(ConfigError, match=f"(?i)option {name} cannot be set") as caught:
        parse(**{name: "json"})
    assert "keys" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("a INT,, b STRING", "nothing is no column"),
        ("a", "a is no column"),
        ("a INT, b", "b is no column"),
        ("a INT>, b STRUCT<c: INT", "its brackets do not match"),
        ("a STRUCT<b: INT", "its brackets do not match"),
    ],
)
def test_columns_that_are_none_are_refused_in_the_words_of_the_user(columns: str, said: str) -> None:
    """Spark would blame the columns of the source that stand around them."""
    values = ValueOptions("json", columns)
    with pytest.raises(ConfigError, match=said):
        struct_ddl(values)


@pytest.mark.parametrize(
    "columns",
    [
        "a INT, b STRING NOT NULL COMMENT 'x, >'",
        "`a, b` decimal(10, 2), c: map<string, array<int>>",
        "a\tINT",
    ],
)
def test_columns_that_spark_reads_are_handed_to_it_as_they_are(columns: str) -> None:
    assert struct_ddl(ValueOptions("json", columns)) == f"struct<{columns}>"


def test_a_password_is_shown_by_no_options_of_ours() -> None:
    login = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "SCRAM-SHA-512"}
    login |= {
        "kafka.sasl.username": "ada",
        "kafka.sasl.password": "geheim",
        "kafka.ssl.ca.location": "ca.pem",
    }
    source = stream(**login)
    sink = SinkOptions.parse({"kafka.bootstrap.servers": "a:1", "topic": "t", **login})
    assert "geheim" not in f"{source!r} {sink!r}" and source.security == sink.security
    assert source.security.sasl is not None and source.security.sasl.password == "geheim"
