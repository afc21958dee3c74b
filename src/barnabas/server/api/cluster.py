"""ApiVersions and DescribeCluster: what a client asks first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from barnabas.broker.ports import Authorizer, cluster_operations
from barnabas.errors import ErrorCode
from barnabas.model import NO_NODE
from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.context import RequestContext
from barnabas.server.net.route import Row
from barnabas.wire.schemas.cluster import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

__all__ = ["ClusterApi"]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
PRODUCE = 0
BROKERS, CONTROLLERS = 1, 2
"""Endpoint types of DescribeCluster (KIP-919)."""


class ClusterApi:
    """Says what one kind of listener serves (`rows`), and which nodes are behind it."""

    __slots__ = ("_addresses", "_authorizer", "_not_advertised", "_quorum", "_rows")

    def __init__(
        self,
        rows: Iterable[Row],
        quorum: Quorum,
        addresses: Addresses,
        authorizer: Authorizer | None = None,
        not_advertised: Callable[[], frozenset[int]] = frozenset,
    ) -> None:
        """`not_advertised` gives the keys of APIs that are served, and that no client needs to know of now."""
        self._authorizer = authorizer
        self._not_advertised = not_advertised
        self._rows = tuple(rows)
        self._quorum = quorum
        self._addresses = addresses

    def api_versions(self, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
        """ApiVersions (key 18; KIP-35, KIP-511, KIP-584): the rows of the table, and the cluster's features.

        Two lies that clients need: Produce is advertised from 0 on, because librdkafka otherwise believes
        that no codec is known (KAFKA-18659); features whose least level is 0 are left out below version 4,
        because older clients cannot read them (KAFKA-17492).
        """
        if refused := self._misled(context, request):
            return ApiVersionsResponse(error_code=int(refused))
        if context.version >= 3:
            context.client.software = f"{request.client_software_name} {request.client_software_version}"
        hidden = self._not_advertised()
        keys = [
            ApiVersion(api_key=row.key, min_version=0 if row.key == PRODUCE else low, max_version=high)
            for row, low, high in self._served(context)
            if row.key not in hidden
        ]
        keys.sort(key=lambda key: key.api_key)
        supported, epoch, finalized = self._features(context.version)
        return ApiVersionsResponse(
            api_keys=keys,
            supported_features=supported,
            finalized_features_epoch=epoch,
            finalized_features=finalized,
        )

    def _misled(self, context: RequestContext, request: ApiVersionsRequest) -> ErrorCode:
        """Return the error of a client that does not say who it is, or that means another node (KIP-1242).

        Both the id of the cluster and of the node are given, or neither.  Controllers, as Apache Kafka's, do not
        compare them.
        """
        if context.version >= 3:
            said = request.client_software_name, request.client_software_version
            if not all(map(_SOFTWARE.fullmatch, said)):
                return ErrorCode.INVALID_REQUEST
        if (request.cluster_id is None) != (request.node_id == NO_NODE):
            return ErrorCode.INVALID_REQUEST
        if request.cluster_id is None or context.client.kind == "C":
            return ErrorCode.NONE
        here = self._quorum.image.cluster_id, self._addresses.node_id
        return (
            ErrorCode.NONE
            if (request.cluster_id, request.node_id) == here
            else ErrorCode.REBOOTSTRAP_REQUIRED
        )

    def _served(self, context: RequestContext) -> Iterator[tuple[Row, int, int]]:
        """Rows of the table and their versions; a broker forwards only what the active controller can read."""
        quorum = self._quorum
        forwards = context.client.kind == "B" and not quorum.is_active_controller
        theirs = quorum.channel.serves() if forwards else None
        for row in self._rows:
            low, high = row.low, row.high
            if row.forward and theirs is not None:
                first, last = theirs.get(row.key, (0, -1))
                low, high = max(low, first), min(high, last)
            if low <= high:
                yield row, low, high

    def _features(self, version: int) -> tuple[list[SupportedFeatureKey], int, list[FinalizedFeatureKey]]:
        from barnabas.controller.feature_levels import supported as ranges  # loaded by the quorum anyway

        supported = [
            SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high) in ranges().items()
            if low > 0 or version >= 4
        ]
        image = self._quorum.image
        levels = dict(image.features)
        if self._quorum.kraft_version:
            levels["kraft.version"] = self._quorum.kraft_version
        finalized = [
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(levels.items())
        ]
        return supported, image.offset, finalized

    def describe_cluster(
        self, context: RequestContext, request: DescribeClusterRequest
    ) -> DescribeClusterResponse:
        """DescribeCluster (key 60; KIP-700, KIP-919): its id and the nodes behind this kind of listener."""
        controllers = context.client.kind == "C"
        mine = CONTROLLERS if controllers else BROKERS
        if request.endpoint_type != mine:
            return _other_endpoint_type(context.version, request.endpoint_type, mine)
        image = self._quorum.image
        nodes: list[DescribeClusterBroker] = []
        if controllers:
            for controller in image.controllers.values():
                host, port = self._addresses.of(context, controller.id, controller.endpoints)
                if port >= 0:
                    nodes.append(DescribeClusterBroker(broker_id=controller.id, host=host, port=port))
        else:
            for broker in image.brokers.values():
                host, port = self._addresses.of(context, broker.id, broker.endpoints)
                fenced = broker.fenced
                if port >= 0 and (not fenced or request.include_fenced_brokers):
                    nodes.append(
                        DescribeClusterBroker(
                            broker_id=broker.id, host=host, port=port, rack=broker.rack, is_fenced=fenced
                        )
                    )
        operations = -(2**31)
        if request.include_cluster_authorized_operations:
            operations = cluster_operations(self._authorizer, context)
        leader = self._quorum.leader_id
        ids = {found.broker_id for found in nodes}
        shown = leader if controllers or leader in ids else min(ids, default=-1)
        return DescribeClusterResponse(
            endpoint_type=mine,
            cluster_id=image.cluster_id,
            controller_id=-1 if shown is None or shown not in ids else shown,
            brokers=nodes,
            cluster_authorized_operations=operations,
        )


def _other_endpoint_type(version: int, asked: int, mine: int) -> DescribeClusterResponse:
    """Refuse a request for the nodes that another kind of listener knows, with Apache Kafka's codes.

    Version 0 asks for brokers without saying so, and has no code for it.
    """
    names = {BROKERS: "brokers", CONTROLLERS: "controllers"}
    if asked not in names:
        code, message = ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {asked}"
    else:
        code = ErrorCode.MISMATCHED_ENDPOINT_TYPE if version > 0 else ErrorCode.INVALID_REQUEST
        message = f"this listener is for {names[mine]}, the request asks for {names[asked]}"
    return DescribeClusterResponse(error_code=int(code), error_message=message)
