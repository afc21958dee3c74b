"""What a suite prints becomes a result, and results become the table of docs/compatibility.md."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.suites import page
from tests.suites.apache import APACHE
from tests.suites.declared import SUITES, Suite, suite
from tests.suites.run import Result, SuiteUnavailableError, against

ONE = Result("kafka-python", "Barnabas", 1, 0.0, 54, 1, 10, ["test_ssl_handshake"], 30, "2026-11-22")

PRINTED = {
    "kafka-python": ("FAILED test/integration/test_admin.py::test_acls - AssertionError", "test_acls"),
    "franz-go": ("    --- FAIL: TestTxnEtl/range (12.31s)", "TestTxnEtl/range"),
    "librdkafka": ("| 0103_transactions                  |     FAILED |  12.1s |", "0103_transactions"),
    "apache-clients": (
        "FAILED PlaintextConsumerTest.testX#1 caught: timeout",
        "PlaintextConsumerTest.testX#1",
    ),
}


def printing(folder: Path, suite: Suite, text: str) -> Suite:
    """The suite with a script that prints this."""

    class Printing(Suite):
        @property
        def script(self) -> Path:
            return folder / "suite.sh"

    (folder / "suite.sh").write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    (folder / "suite.sh").chmod(0o755)
    return Printing(**{field.name: getattr(suite, field.name) for field in dataclasses.fields(suite)})


@pytest.mark.parametrize("name", PRINTED)
def test_a_failed_test_is_named(name: str, tmp_path: Path) -> None:
    line, failed = PRINTED[name]
    text = f"something else\n{line}\nPASSED 12 FAILED 1 SKIPPED 3"
    result = against(printing(tmp_path, suite(name), text), "127.0.0.1:1", nodes=1)
    assert (result.passed, result.failed, result.skipped, result.failures) == (12, 1, 3, [failed])


@pytest.mark.parametrize("text", ["", "no counts", "PASSED 0 FAILED 0 SKIPPED 4"])
def test_a_suite_that_ran_nothing_is_no_result(text: str, tmp_path: Path) -> None:
    with pytest.raises(SuiteUnavailableError):
        against(printing(tmp_path, suite("franz-go"), text), "127.0.0.1:1", nodes=1)


def test_every_suite_has_a_script() -> None:
    assert [each.name for each in SUITES if not each.script.exists()] == []


def test_the_table_puts_apache_kafka_beside_us_and_says_why_a_test_fails() -> None:
    theirs = dataclasses.replace(ONE, peer="Apache Kafka 4.3.1", failed=0, failures=[], seconds=22)
    table = page.section([ONE, theirs])
    assert "| one node | 54 | 1 | 10 | 30 | 4.3.1: 54 / 0 / 10, 22 s | 2026-11-22 |" in table
    assert "| `test_ssl_handshake` | kafka-python | starts a broker of its own" in table


def test_a_failure_that_nobody_explains_stands_out() -> None:
    assert "**not explained yet**" in page.section([dataclasses.replace(ONE, failures=["test_new"])])


def test_what_fails_through_the_same_kills_with_apache_kafka_is_explained_by_that() -> None:
    ours = dataclasses.replace(ONE, kills_every=20.0, failures=["test_new"])
    theirs = dataclasses.replace(ours, peer=APACHE)
    assert "| `test_new` | kafka-python | through kills: fails with Apache Kafka, too |" in page.section(
        [ours, theirs]
    )
    calm = dataclasses.replace(theirs, kills_every=0.0)
    assert page.NOT_EXPLAINED in page.section([ours, calm])


def test_a_reason_that_ends_other_tests_with_apache_kafka_is_counted_there() -> None:
    ours = dataclasses.replace(ONE, kills_every=20.0, failures=["a"], reasons={"a": "it breaks off"})
    theirs = dataclasses.replace(
        ours, peer=APACHE, failures=["b", "c", "d"], reasons=dict.fromkeys("bc", "it breaks off")
    )
    assert "through kills: it breaks off; with Apache Kafka that ends 2 tests |" in page.section(
        [ours, theirs]
    )


def test_where_a_test_of_librdkafka_ended_says_why(tmp_path: Path) -> None:
    text = (
        "| 0020 | FAILED | (no result: killed or crashed)\n0020 failed at test.c:790:test_error_cb()\n"
        "| 0075 | FAILED | (no result: killed or crashed)\n0075 failed at 0075-retry.c:256:do_test()\n"
        "PASSED 2 FAILED 2 SKIPPED 0"
    )
    result = against(printing(tmp_path, suite("librdkafka"), text), "127.0.0.1:1", nodes=3, kills_every=20.0)
    assert result.failures == ["0020", "0075"] and list(result.reasons) == ["0020"]
    assert "| `0020` | librdkafka | through kills: its harness ends it" in page.section([result])
    assert "| `0075` | librdkafka | **not explained yet** |" in page.section([result])


def test_the_page_says_what_the_runs_showed() -> None:
    """`make suites` writes both."""
    text = page.PAGE.read_text()
    assert page.written(text, *page.load()) == text
