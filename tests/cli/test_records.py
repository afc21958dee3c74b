"""`barnabas produce` and `barnabas consume`: templates, headers, ends, and what is said after an error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.shell import Shell, typed
from tests.pipeline.registry_server import registry_server

from barnabas import Consumer, Producer
from barnabas.cli.records.sent import Standing
from barnabas.cli.records.template import InputLine, parser_of, printer_of
from barnabas.client.consumer import Message
from barnabas.errors import ConfigError
from barnabas.testing import Cluster

RECORD = Message("t", 2, 41, 1700, b"k", b"v\xff", (("a", b"1"), ("b", None)))


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    """A node for this module alone."""
    with Cluster() as cluster:
        yield cluster


def read(kafka: Cluster, topic: str) -> list[Message]:
    with Consumer(kafka.bootstrap, topic, start="earliest", idle=0.2) as consumer:
        return list(consumer)


# ------------------------------------------------------------------ templates


@pytest.mark.parametrize(
    ("template", "printed"),
    [
        ("value", b"v\xff\n"),
        ("key", b"k\tv\xff\n"),
        (r"{topic}-{partition}@{offset}\t{key} {timestamp}", b"t-2@41\tk 1700\n"),
        ("{headers} {header:a}{header:b}{header:c}", b"a=1,b 1~~\n"),
        (r"{{{value}}}\\n", b"{v\xff}\\n\n"),
    ],
)
def test_a_template_prints_a_record(template: str, printed: bytes) -> None:
    assert printer_of(template, "~")(RECORD) == printed


@pytest.mark.parametrize(
    ("template", "text", "line"),
    [
        ("value", b"a:b", InputLine(b"a:b")),
        ("{key}:{value}", b"a:b:c", InputLine(b"b:c", b"a")),
        (
            r"{partition}\t{timestamp}\t{headers}\t{value}",
            b"3\t5\tx=1,y\tv",
            InputLine(b"v", None, 3, 5, (("x", b"1"), ("y", None))),
        ),
        (r"{partition}\t{value}", b"\tv", InputLine(b"v")),
        ("<{value}> {key}", b"<> NULL", InputLine(b"", None)),
    ],
)
def test_a_template_reads_a_line(template: str, text: bytes, line: InputLine) -> None:
    assert parser_of(template, "NULL")(text) == line


@pytest.mark.parametrize("null", [None, b""])
def test_json_reads_exactly_what_it_prints(null: bytes | None) -> None:
    message = RECORD._replace(key=null)
    text = printer_of("json", "")(message)
    line = parser_of("json", None)(text)
    assert line == InputLine(b"v\xff", null, 2, 1700, RECORD.headers)


@pytest.mark.parametrize(
    "template", ["{offset} {value}", "{key}{value}", "{key}", "{value", "csv", "{value} {value}"]
)
def test_a_template_that_cannot_be_read_by_is_refused(template: str) -> None:
    with pytest.raises(ConfigError):
        parser_of(template, None)


@pytest.mark.parametrize("template", ["{nonsense}", "{value", "csv", "{header}", "{value:9}"])
def test_a_template_that_cannot_be_printed_is_refused(template: str) -> None:
    with pytest.raises(ConfigError):
        printer_of(template, "")


@pytest.mark.parametrize(
    "text",
    [
        b"{",
        b"[]",
        b"{}",
        b'{"value":5}',
        b'{"value":{"base64":"?"}}',
        b'{"value":"x","partition":-1}',
        b'{"value":"x","headers":["a"]}',
        b'{"value":"x","keys":"y"}',
    ],
)
def test_a_json_line_that_is_none_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"^(is|has|says) "):
        parser_of("json", None)(text)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("json", b'{"version":1,"kind":"record","value":"v","timestamp":9223372036854775808}'),
        ("{timestamp} {value}", b"9223372036854775808 v"),
        ("{partition} {value}", b"2147483648 v"),
        ("{partition} {value}", b"9" * 5000 + b" v"),
    ],
)
def test_a_number_in_a_line_that_no_record_can_carry_is_named(template: str, text: bytes) -> None:
    with pytest.raises(ValueError, match="is no number from"):
        parser_of(template, None)(text)


@pytest.mark.parametrize(
    ("template", "text"), [("json", b'{"value":"v","timestamp":-1}'), ("{timestamp} {value}", b"-1 v")]
)
def test_the_time_of_a_record_that_has_none_is_read_as_it_is_printed(template: str, text: bytes) -> None:
    assert parser_of(template, None)(text).timestamp == -1


# ------------------------------------------------------------------ produce


def test_a_line_and_the_flags_say_key_headers_partition_and_timestamp(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("topics create rec-flags --partitions 3")
    typed(monkeypatch, b"one\n")
    line = "produce rec-flags --key k --header a=1,2 --header b --partition 2 --timestamp 17"
    assert shell(line) == 0
    typed(monkeypatch, b"1|x=y|two\n||three\n")
    assert shell("produce rec-flags --format {partition}|{headers}|{value} --partition 0 --header f=g") == 0
    found = {m.value: (m.partition, m.key, m.headers) for m in read(shell.kafka, "rec-flags")}
    assert found == {
        b"one": (2, b"k", (("a", b"1,2"), ("b", None))),
        b"two": (1, None, (("x", b"y"),)),
        b"three": (0, None, (("f", b"g"),)),
    }
    assert [m.timestamp for m in read(shell.kafka, "rec-flags") if m.value == b"one"] == [17]


def test_what_is_consumed_as_json_is_produced_as_it_was(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed(monkeypatch, b"a\tx=1\tone\nNULL\t\tNULL\n")
    assert shell(r"produce rec-from --null NULL --format {key}\t{headers}\t{value} --timestamp 5") == 0
    assert shell("consume rec-from --from-beginning --until latest --format json") == 0
    typed(monkeypatch, shell.out.encode())
    assert shell("produce rec-to --format json") == 0
    assert [m[1:] for m in read(shell.kafka, "rec-to")] == [m[1:] for m in read(shell.kafka, "rec-from")]


def test_after_a_bad_line_the_lines_before_it_are_stored_and_one_goes_on_there(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"".join(b"%d:%d\n" % (n, n) for n in range(3000))
    typed(monkeypatch, text.replace(b"2500:2500", b"2500;2500"))
    assert shell("produce rec-bad --key-separator :") == 2
    assert shell.err == (
        "error: line 2501 has no ':'\n"
        "  next: write the line as --format '{key}:{value}' says\n"
        "  stored: lines 1 to 2500\n"
        "  not stored: line 2501 and all after it\n"
        "  go on: with --from-line 2501\n"
    )
    typed(monkeypatch, text)
    assert shell("produce rec-bad --key-separator : --from-line 2501") == 0
    assert [int(m.value or b"") for m in read(shell.kafka, "rec-bad")] == list(range(3000))


def test_after_a_record_that_is_refused_no_later_line_is_stored(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A record of 2 MB in the middle: it is refused, and nothing after it is sent."""
    lines = [b"%d" % n for n in range(20_000)]
    lines[10_000] = b"x" * 2_000_000
    source = tmp_path / "lines"
    source.write_bytes(b"\n".join(lines) + b"\n")
    assert shell(f"produce rec-large --file {source}") == 1
    assert shell.err.splitlines()[-3:] == [
        "  stored: lines 1 to 10000",
        "  not stored: line 10001 and all after it",
        "  go on: with --from-line 10001",
    ]
    assert [m.value for m in read(shell.kafka, "rec-large")] == lines[:10_000]
    assert shell(f"produce rec-large --file {source} --from-line 10002 --json") == 0
    assert json.loads(shell.out)["stored"] == [[10_002, 20_000]]


def test_a_partition_that_is_not_there_ends_the_input(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    typed(monkeypatch, b"0_a\n9_b\n0_c\n")
    assert shell("produce rec-part --format {partition}_{value}") == 4
    assert shell.err.endswith(
        "stored: line 1\n  not stored: line 2 and all after it\n  go on: with --from-line 2\n"
    )


def test_lines_after_a_gap_and_lines_without_an_answer_are_named() -> None:
    standing = Standing([(1, 4), (9, 12)], [(6, 7)], 5, 0)
    assert standing.told("line", acknowledged=True) == [
        "stored: lines 1 to 4, lines 9 to 12",
        "unknown, no answer came: lines 6 to 7",
        "not stored: line 5, line 8, line 13 and all after it",
        "go on: with --from-line 5, after you looked in the topic which of lines 6 to 7 are there, "
        "without lines 9 to 12",
    ]


# ------------------------------------------------------------------ consume


def test_reading_ends_before_an_offset_in_every_partition(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("topics create rec-until --partitions 2")
    for partition in (0, 1):
        typed(monkeypatch, b"".join(b"%d-%d\n" % (partition, n) for n in range(5)))
        shell(f"produce rec-until --partition {partition}")
    assert shell("consume rec-until --offset 1 --until 3") == 0
    assert sorted(shell.out.split()) == ["0-1", "0-2", "1-1", "1-2"]
    assert shell("consume rec-until --partition 1 --from-beginning --until latest --format {offset}") == 0
    assert shell.out.split() == ["0", "1", "2", "3", "4"]
    assert shell("consume rec-until --until latest") == 0
    assert shell.out == ""


def test_a_beginning_that_is_not_there_or_after_the_end_is_refused(shell: Shell) -> None:
    shell("produce rec-places --records 5 -q")
    assert shell("consume rec-places --offset 6") == 1
    assert shell.err.startswith("error: rec-places-0 has no offset 6: it begins at 0 and ends at 5 ")
    assert shell("consume rec-places --offset 5 --idle 0.1") == 0
    assert shell("consume rec-places --offset 4 --until 3") == 2
    assert shell("consume rec-places --group g --until 3") == 2
    assert shell("consume rec-places --offset middle") == 2
    assert shell("consume rec-places --format {nonsense}") == 2


def test_reading_between_two_times(shell: Shell) -> None:
    shell("produce rec-time --records 3 --timestamp 1000 -q")
    shell("produce rec-time --records 3 --timestamp 2000 -q")
    assert shell("consume rec-time --offset time:1500 --until time:9000 --format {offset}") == 0
    assert shell.out.split() == ["3", "4", "5"]


def test_reading_the_last_records_and_from_a_time_as_people_write_it(shell: Shell) -> None:
    shell("produce rec-last --records 3 --timestamp 1000 -q")
    shell("produce rec-last --records 4 --timestamp 86400000 -q")
    assert shell("consume rec-last -o -2 -e --format {offset}") == 0
    assert shell.out.split() == ["5", "6"]
    assert shell("consume rec-last -o -99 -e --format {offset}") == 0
    assert len(shell.out.split()) == 7, "there are no more than there are"
    assert shell("consume rec-last -o 1970-01-02 -e --format {offset}") == 0
    assert shell.out.split() == ["3", "4", "5", "6"]
    assert shell("consume rec-last -o 1970-01-02 --group g") == 2


def test_values_of_confluents_serializer_are_printed_by_their_schemas(shell: Shell) -> None:
    fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "bytes"}]
    schema = {"type": "record", "name": "R", "fields": fields}
    with registry_server() as server:
        id_ = server.add("rec-avro-value", json.dumps(schema))
        value = bytes([0, 0, 0, 0, id_, 14, 2, 255])
        with Producer(shell.kafka.bootstrap) as producer:
            producer.send("rec-avro", value)
            producer.send("rec-avro", None, "gone")
            producer.send("rec-avro", "no Avro")
        assert shell(f"consume rec-avro -o 0 --until 2 --null - --avro {server.url}") == 0
        assert shell.out.splitlines() == ['{"a":7,"b":{"base64":"/w=="}}', "-"]
        assert shell(f"consume rec-avro -o 2 -e --avro {server.url}") == 1
        assert "rec-avro-0 offset 2: no Avro value" in shell.err
        assert shell("consume rec-avro -o 0 -e --avro ''") == 2, "an empty address is not none at all"


# ------------------------------------------------------------------ groups reset


def test_a_reset_is_shown_first_and_refused_for_a_group_that_is_not_there(shell: Shell) -> None:
    shell("produce rec-reset --records 10 -q")
    assert shell("consume rec-reset --group rec-g --from-beginning --max 4") == 0
    assert shell("groups reset rec-g --to earliest") == 0
    assert shell.out.splitlines() == [
        "TOPIC      PARTITION  COMMITTED  NEW",
        "rec-reset          0          4    0",
    ]
    assert shell.err == "Nothing is changed yet: add --execute.\n"

    def committed() -> Any:
        [row] = shell.document("groups describe rec-g")["group"]["offsets"]
        return row["committed"]

    assert committed() == 4
    assert shell("groups reset rec-g --to earliest --execute") == 0
    assert committed() == 0
    assert shell("groups reset rec-mistyped --topic rec-reset --to earliest --execute") == 4
    assert "rec-mistyped" not in [g["group"] for g in shell.document("groups list")["groups"]]


def test_what_a_group_committed_in_a_topic_is_forgotten_and_nothing_else(shell: Shell) -> None:
    shell("produce rec-kept --records 1 -q")
    shell("produce rec-forgotten --records 1 -q")
    assert shell("consume rec-kept rec-forgotten --group rec-two --from-beginning --max 2") == 0
    assert shell("groups delete-offsets rec-two --topic rec-forgotten --topic rec-mistyped") == 4
    assert "group rec-two has committed nothing in rec-mistyped" in shell.err
    assert shell("groups delete-offsets rec-two --topic rec-forgotten") == 0
    assert shell.out == "Deleted what group rec-two had committed in rec-forgotten-0.\n"
    rows = shell.document("groups describe rec-two")["group"]["offsets"]
    assert [row["topic"] for row in rows] == ["rec-kept"]
    with Consumer(shell.kafka.bootstrap, "rec-kept", group="rec-two") as consumer:
        consumer.poll(0.1)
        assert shell("groups delete-offsets rec-two --topic rec-kept") == 1
        assert "its members read rec-kept" in shell.err
