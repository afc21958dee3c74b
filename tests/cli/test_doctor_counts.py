"""Findings of `barnabas doctor` about brokers whose counts are not those of the coordinators' topics."""

from __future__ import annotations

import pytest

from barnabas.cli.doctor.coordinators import examine_counts
from barnabas.cli.doctor.findings import Finding, Findings
from barnabas.model import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from barnabas.settings.coordinator_topics import kafkas_counts

EIGHT = {OFFSETS_TOPIC: 8, TRANSACTIONS_TOPIC: 8}
FIFTY = {OFFSETS_TOPIC: 50, TRANSACTIONS_TOPIC: 50}
BOTH = "offsets.topic.num.partitions=8 and transaction.state.log.num.partitions=8"


def examined(topics: dict[str, int], kafkas: dict[int, dict[str, int]]) -> list[Finding]:
    found = Findings()
    examine_counts({"orders": 3, **topics}, kafkas, found)
    return found.rows


def test_a_broker_of_apache_kafka_that_expects_other_counts_is_named_with_both_settings() -> None:
    [row] = examined(EIGHT, {1: {}, 4: FIFTY, 5: EIGHT})
    assert row.state == "warning"
    assert "__consumer_offsets has 8 partitions, __transaction_state has 8 partitions" in row.said
    assert "(4)" in row.said
    assert row.next == f"set {BOTH} in the file of each, and start it again"


def test_before_one_joins_it_is_said_which_settings_it_should_have() -> None:
    [row] = examined(EIGHT, {1: {}, 2: {}})
    assert row.state == "ok" and row.said.endswith(f"a broker of Apache Kafka should have {BOTH}")


@pytest.mark.parametrize("topics", [FIFTY, {OFFSETS_TOPIC: 50}, {}])
def test_kafkas_own_counts_are_nothing_to_tell(topics: dict[str, int]) -> None:
    assert examined(topics, {1: {}, 4: FIFTY}) == []


def test_a_broker_with_a_setting_of_ours_follows_the_topic() -> None:
    told: dict[str, str | None] = {
        "offsets.topic.num.partitions": "50",
        "transaction.state.log.num.partitions": "50",
    }
    assert kafkas_counts(told) == FIFTY
    assert kafkas_counts({**told, "barnabas.fast.fencing": "true"}) == {}
    assert kafkas_counts({}) == {}
