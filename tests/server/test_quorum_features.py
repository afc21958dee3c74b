"""kraft.version goes up when every registered node supports it, and the answer names the node that does not."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.server.quorum_node import Node, formatted, run, running

from barnabas.controller.feature_levels import KRAFT_VERSION
from barnabas.controller.image import BrokerState, ControllerState
from barnabas.errors import ErrorCode
from barnabas.model import NodeId, Uuid
from barnabas.server.api.features import FeatureApi
from barnabas.wire.schemas.configs import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse


async def upgrade(node: Node, level: int = 1) -> UpdateFeaturesResponse:
    keys = [FeatureUpdateKey(feature=KRAFT_VERSION, max_version_level=level, upgrade_type=1)]
    asked = UpdateFeaturesRequest(feature_updates=keys, validate_only=True)
    answer = await FeatureApi(node.quorum).update(
        SimpleNamespace(version=2, principal="User:ANONYMOUS", client_host="127.0.0.1"), asked
    )  # type: ignore[arg-type]
    assert isinstance(answer, UpdateFeaturesResponse)
    return answer


def broker(id_: NodeId, high: int) -> BrokerState:
    return BrokerState(id_, 1, Uuid.of(1, id_), (), {KRAFT_VERSION: (0, high)}, None, False, False, (), ())


def controller(id_: NodeId, high: int) -> ControllerState:
    return ControllerState(id_, Uuid.of(2, id_), (), {KRAFT_VERSION: (0, high)})


@pytest.mark.parametrize("high", [0, 1])
def test_a_registered_broker_that_does_not_support_the_level_is_named_and_nothing_is_raised(
    high: int,
) -> None:
    """KIP-853, upgrade: brokers count as well as controllers."""

    async def story() -> None:
        async with running(formatted()) as node:
            await node.broker()
            assert (await upgrade(node)).error_code == ErrorCode.NONE
            node.quorum.image.brokers[7] = broker(7, high)
            answer = await upgrade(node)
            assert answer.error_code == (ErrorCode.NONE if high else ErrorCode.INVALID_UPDATE_VERSION)
            if not high:
                assert answer.error_message == "broker 7 supports kraft.version 0 to 0 only, not 1"

    run(story)


def test_a_voter_that_does_not_support_the_level_is_named_and_a_removed_controller_is_not_asked() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            await node.broker()
            node.quorum.image.controllers[4] = controller(4, 0)
            assert (await upgrade(node)).error_code == ErrorCode.NONE, "4 does not vote"
            node.quorum.image.controllers[1] = controller(1, 0)
            answer = await upgrade(node)
            assert answer.error_message == "controller 1 supports kraft.version 0 to 0 only, not 1"
            del node.quorum.image.controllers[1]
            assert (await upgrade(node)).error_message == "controller 1 has not registered yet"

    run(story)


def test_a_level_that_nobody_knows_is_refused() -> None:
    async def story() -> None:
        async with running(formatted()) as node:
            await node.broker()
            answer = await upgrade(node, level=2)
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
            assert "supports kraft.version 0 to 1 only, not 2" in (answer.error_message or "")

    run(story)
