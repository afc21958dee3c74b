"""Rows that cannot be records: each is refused with a reason and a next step."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from barnabas.errors import BarnabasError, ConfigError, ErrorCode, KafkaError, WireError
from barnabas.pipeline.sink import task
from barnabas.pipeline.sink.decisions import Claim
from barnabas.pipeline.sink.options import SinkOptions
from barnabas.pipeline.sink.rows import check_columns, rows_of
from barnabas.pipeline.sink.writer import StreamWriter

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:1", "topic": "t", "sinkId": "s"}


def batch(name: str, type_: pa.DataType, value: Any) -> pa.RecordBatch:
    values = [pa.array([b"v"]), pa.array([value], type_)]
    return pa.RecordBatch.from_arrays(values, names=["value", name])


@pytest.mark.parametrize(
    ("name", "type_", "value", "said"),
    [
        ("topic", pa.string(), None, "a row has no topic"),
        ("timestamp", pa.timestamp("us", "UTC"), -5_000, "before 1970"),
        ("headers", HEADERS, [{"key": None, "value": b"x"}], "a header without a key"),
        ("headers", HEADERS, [None], "a header without a key"),
    ],
)
def test_a_row_that_is_no_record_is_refused(name: str, type_: Any, value: Any, said: str) -> None:
    with pytest.raises(BarnabasError, match=said) as caught:
        list(rows_of([batch(name, type_, value)], None if name == "topic" else "t"))
    assert caught.value.next_step


def test_what_may_be_null_may() -> None:
    nothing = batch("headers", HEADERS, None)
    assert list(rows_of([nothing], "t")) == [("t", b"v", None, None, (), None, None)]


def test_a_micro_batch_that_cannot_begin_says_why_through_pickle() -> None:
    """Spark replaces an error of pickling by one without a next step, but for those of pickle itself."""
    writer = StreamWriter(SinkOptions.parse(GIVEN), "s")
    with pytest.raises(pickle.PickleError, match=r"cannot connect to 127\.0\.0\.1:1") as caught:
        pickle.dumps(writer)
    assert isinstance(caught.value, BarnabasError)
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("error", "options", "said"),
    [
        (WireError("v5 cannot carry it"), {"twoPhaseCommit": "required"}, "no prepared transaction without"),
        (
            KafkaError(ErrorCode.INVALID_TRANSACTION_TIMEOUT),
            {"kafka.transaction.timeout.ms": "99999999"},
            "kafka.transaction.timeout.ms=99999999 is more than the brokers allow",
        ),
    ],
)
def test_what_the_brokers_do_not_allow_names_the_option(
    monkeypatch: pytest.MonkeyPatch, error: BarnabasError, options: dict[str, str], said: str
) -> None:
    class Refused:
        def __init__(self, *_: object, **__: object) -> None: ...

        def begin(self) -> None:
            raise error

        def abandon(self) -> None: ...

    monkeypatch.setattr(task, "TransactionalProducer", Refused)
    row = ("t", b"v", None, None, (), None, None)
    with pytest.raises(ConfigError, match=said) as caught:
        task.write_prepared(SinkOptions.parse(GIVEN | options), "s", Claim(None, -1), 0, iter([row]))
    assert caught.value.next_step


def test_rows_of_a_checkpoint_that_was_set_back_are_not_left_out_without_a_word() -> None:
    rows = iter([("t", b"v", None, None, (), None, None)])
    with pytest.raises(
        BarnabasError, match="micro-batch 4, and the sink has written micro-batches up to 9"
    ) as caught:
        task.write_prepared(SinkOptions.parse(GIVEN), "s", Claim(None, 9), 4, rows)  # type: ignore[arg-type]
    assert "newest checkpoint" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("names", "said", "step"),
    [
        (["value", "value"], "two columns value", "select one of them"),
        (["Value"], "no column Value: it writes value", "Value AS value"),
        (["value", "TOPIC"], "no column TOPIC: it writes topic", "TOPIC AS topic"),
        (["value", "more"], "no column more", "to_json"),
    ],
)
def test_columns_that_are_nearly_the_sinks_are_refused_with_what_to_select(
    names: list[str], said: str, step: str
) -> None:
    schema = StructType([StructField(name, StringType()) for name in names])
    with pytest.raises(ConfigError, match=said) as caught:
        check_columns(schema, "t")
    assert step in (caught.value.next_step or "")
