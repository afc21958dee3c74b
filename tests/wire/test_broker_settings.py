"""The settings of one broker are asked for by its id, and told by their names."""

from __future__ import annotations

from barnabas.errors import ErrorCode
from barnabas.wire.broker_settings import request_of, values_of
from barnabas.wire.schemas.configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)


def test_some_settings_are_asked_for_by_name_and_all_without() -> None:
    [some], [all_] = request_of(7, ("a", "b")).resources, request_of(7).resources
    assert (some.resource_type, some.resource_name, some.configuration_keys) == (4, "7", ["a", "b"])
    assert (all_.resource_type, all_.resource_name, all_.configuration_keys) == (4, "7", None)


def test_values_are_told_by_name_and_none_where_the_right_is_missing() -> None:
    configs = [
        DescribeConfigsResourceResult(name="a", value="1"),
        DescribeConfigsResourceResult(name="b", value=None),
    ]
    told = DescribeConfigsResult(configs=configs)
    assert values_of(DescribeConfigsResponse(results=[told])) == {"a": "1", "b": None}
    refused = DescribeConfigsResult(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    assert values_of(DescribeConfigsResponse(results=[refused])) == {}
