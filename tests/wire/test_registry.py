"""Which API is where."""

from __future__ import annotations

import pytest

from barnabas.errors import WireError
from barnabas.wire.registry import (
    API,
    API_NAMES,
    OWN_ROWS,
    record_class,
    request_class,
    request_header_version,
    response_class,
    response_header_version,
)

REMOVED = {4, 5, 6, 7}


def test_the_keys_are_those_of_kafka_4_4_0() -> None:
    assert set(API) == set(range(95)) - REMOVED | {row[0] for row in OWN_ROWS}
    assert API_NAMES[80] == "AddRaftVoter"


@pytest.mark.parametrize("key", API)
def test_an_api_is_what_its_classes_say(key: int) -> None:
    api = API[key]
    for cls, kind in ((request_class(key), "Request"), (response_class(key), "Response")):
        assert api.name + kind == cls.NAME
        assert key == cls.KEY
        assert (api.first, api.last) == cls.VERSIONS
        assert api.flexible == cls.FLEXIBLE


def test_ranges_that_clients_depend_on() -> None:
    ranges = {API[key].name: (API[key].first, API[key].last_stable) for key in (0, 1, 3, 11, 18, 22, 23, 68)}
    assert ranges == {
        "Produce": (3, 13),
        "Fetch": (4, 18),
        "Metadata": (0, 13),
        "JoinGroup": (0, 9),
        "ApiVersions": (0, 5),
        "InitProducerId": (0, 5),
        "OffsetForLeaderEpoch": (2, 4),
        "ConsumerGroupHeartbeat": (0, 1),
    }
    assert API[22].unstable


def test_keys_and_types_that_there_are_not_are_wire_errors() -> None:
    for find in (request_class, response_class):
        with pytest.raises(WireError, match="no API with the key 4"):
            find(4)
    with pytest.raises(WireError, match="no metadata record of type 999"):
        record_class(999)
    assert record_class(2).NAME == "TopicRecord"


def test_headers_are_flexible_where_the_message_is_but_never_that_of_an_api_versions_answer() -> None:
    assert (request_header_version(1, 11), request_header_version(1, 12)) == (1, 2)
    assert (response_header_version(1, 11), response_header_version(1, 12)) == (0, 1)
    assert (request_header_version(18, 3), response_header_version(18, 3)) == (2, 0)
    assert request_header_version(17, 1) == 1
