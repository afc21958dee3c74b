"""The one table of what is served."""

from __future__ import annotations

import inspect
from collections import Counter
from typing import Any

import pytest

from barnabas.broker.ports import ResourceType
from barnabas.server.api.table import TABLE, served_on
from barnabas.server.rights.guards import GUARDS, guard_of
from barnabas.server.rights.needed import Needed, all_guarded, needed
from barnabas.wire.apis import ROWS
from barnabas.wire.registry import API

NEVER_FOR_CLIENTS = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82, 10_642, 10_643}
"""APIs between nodes: a client listener must not serve them."""


def test_each_kind_of_listener_serves_an_api_once() -> None:
    for kind in "BC":
        counted = Counter(row.key for row in served_on(kind))
        assert [key for key, times in counted.items() if times > 1] == []


def test_a_client_listener_serves_nothing_that_is_between_nodes() -> None:
    assert not {row.key for row in served_on("B")} & NEVER_FOR_CLIENTS


def test_advertised_versions_are_versions_the_codec_knows_and_are_stable() -> None:
    for row in TABLE:
        api = API[row.key]
        assert api.first <= row.low <= row.high <= api.last_stable, api.name


def test_of_apache_kafkas_apis_only_those_of_share_and_streams_groups_are_not_served() -> None:
    families = {"share_groups", "share_state", "streams_groups"}
    newest: dict[int, int] = {}
    for row in TABLE:
        newest[row.key] = max(row.high, newest.get(row.key, 0))
    for key, name, family, *_ in ROWS:
        assert newest.get(key) == (None if family in families else API[key].last_stable), name


def test_old_clients_find_the_versions_they_insist_on() -> None:
    """librdkafka wants exactly these (facts of its source); others negotiate."""
    ranges = {row.key: (row.low, row.high) for row in served_on("B")}
    for key, version in ((23, 2), (11, 0), (10, 0), (12, 0), (13, 0), (14, 0), (8, 2), (9, 1), (2, 1)):
        low, high = ranges[key]
        assert low <= version <= high, API[key].name


def test_every_handler_is_a_method_that_takes_the_context_and_the_request() -> None:
    for row in TABLE:
        assert list(inspect.signature(row.handler).parameters) == ["self", "context", "request"]


def test_every_row_says_who_may_call_it_and_where_that_is_asked() -> None:
    for row in TABLE:
        asked = needed(row)
        assert (asked is Needed.EACH) == (guard_of(row) is GUARDS.get(row.key)), row.key
    assert {row.key for row in TABLE if needed(row) is Needed.EACH} == set(GUARDS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"operation": None}, "names no operation"),
        ({"resource": None}, "names no operation and no resource"),
        ({"key": 100, "resource": ResourceType.TOPIC}, "nothing that tells its items apart"),
        ({"listeners": "C", "resource": ResourceType.GROUP}, "between nodes"),
    ],
)
def test_a_row_that_does_not_say_who_may_call_it_is_not_loaded(changes: dict[str, Any], words: str) -> None:
    row = next(row for row in TABLE if row.key == 55)._replace(**changes)
    with pytest.raises(ValueError, match=words):
        all_guarded([row])


def test_only_apis_of_logins_of_telemetry_and_of_ones_own_tokens_are_for_everybody() -> None:
    assert {row.key for row in TABLE if needed(row) is Needed.NOTHING} <= {17, 18, 36, 39, 40, 71, 72}
