"""UpdateFeatures where kraft.version is among the features: the quorum's own level (KIP-584, KIP-853).

The controller decides all other levels and writes them as records; kraft.version is written by the
quorum's leader, with the voters, when every voter has told it what it supports.  Both are checked before
either is done.
"""

from __future__ import annotations

import asyncio

from barnabas.controller.feature_levels import KRAFT_VERSION
from barnabas.errors import ErrorCode, KafkaError
from barnabas.raft.messages import ChangeResponse, UpgradeRequest
from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.context import RequestContext
from barnabas.server.observe.history import asker
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["FeatureApi"]


class FeatureApi:
    """Serves UpdateFeatures on the active controller."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def update(self, context: RequestContext, request: UpdateFeaturesRequest) -> asyncio.Future[Message]:
        """UpdateFeatures (key 57; KIP-584, KIP-853)."""
        if not any(update.feature == KRAFT_VERSION for update in request.feature_updates):
            return self._quorum.submit(request, context.version)
        work = self._with_kraft_version(request, context.version, asker(context))
        return asyncio.get_running_loop().create_task(work)

    async def _with_kraft_version(self, request: UpdateFeaturesRequest, version: int, by: str) -> Message:
        quorum = self._quorum
        own = next(update for update in request.feature_updates if update.feature == KRAFT_VERSION)
        others = [update for update in request.feature_updates if update.feature != KRAFT_VERSION]
        if not quorum.is_active_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        level = own.max_version_level
        if why := _unsupported(quorum, level):
            return _refused(why)
        if others:
            checked = await quorum.submit(_only(request, others, True), version)
            assert isinstance(checked, UpdateFeaturesResponse)
            if checked.error_code:
                return checked
        answer = await quorum.change(UpgradeRequest(level, request.validate_only), by)
        assert isinstance(answer, ChangeResponse)
        if answer.error is not ErrorCode.NONE:
            if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, answer.message or "")
            return UpdateFeaturesResponse(error_code=answer.error, error_message=answer.message)
        if others and not request.validate_only:
            done = await quorum.submit(_only(request, others, False), version)
            assert isinstance(done, UpdateFeaturesResponse)
            if done.error_code:
                return done
        results = [
            UpdatableFeatureResult(feature=update.feature, error_message=None)
            for update in request.feature_updates
            if version < 2
        ]
        return UpdateFeaturesResponse(error_message=None, results=results)


def _only(
    request: UpdateFeaturesRequest, updates: list[FeatureUpdateKey], validate_only: bool
) -> UpdateFeaturesRequest:
    return UpdateFeaturesRequest(
        timeout_ms=request.timeout_ms,
        feature_updates=updates,
        validate_only=validate_only or request.validate_only,
    )


def _unsupported(quorum: Quorum, level: int) -> str | None:
    """Which registered node does not know that level of kraft.version."""
    image = quorum.image
    voters = quorum.voters.ids
    for kind, nodes in (("broker", image.brokers), ("controller", image.controllers)):
        for node in nodes.values():
            low, high = node.features.get(KRAFT_VERSION, (0, 0))
            if kind == "controller" and node.id not in voters:
                continue  # one that was removed does not hold the others up
            if not low <= level <= high:
                return f"{kind} {node.id} supports {KRAFT_VERSION} {low} to {high} only, not {level}"
    missing = [id_ for id_ in voters if id_ not in image.controllers]
    return f"controller {missing[0]} has not registered yet" if missing else None


def _refused(why: str) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=why)
