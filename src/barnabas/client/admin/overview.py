"""The cluster as a whole: its brokers, and the levels of its features."""

from __future__ import annotations

from typing import Any

from barnabas.client.admin.described import ClusterDescription, FeatureRange
from barnabas.client.for_both import AnyCluster, for_both
from barnabas.client.metadata import Broker
from barnabas.errors import ErrorCode, KafkaError
from barnabas.version import __version__
from barnabas.wire.schemas.cluster import ApiVersionsRequest, DescribeClusterRequest

__all__ = ["describe_cluster", "features"]


@for_both
async def describe_cluster(cluster: AnyCluster, *, fenced: bool = False) -> ClusterDescription:
    """`describe_cluster(cluster).cluster_id`; with `fenced` also brokers that do not serve now."""
    fenced = fenced and (await cluster.any()).version_of(DescribeClusterRequest) >= 2
    response = await cluster.ask(DescribeClusterRequest(include_fenced_brokers=fenced))
    if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:  # a controller's listener
        response = await cluster.ask(DescribeClusterRequest(endpoint_type=2))
    _check(response, "describing the cluster")
    brokers = tuple(
        Broker(b.broker_id, b.host, b.port, b.rack)
        for b in sorted(response.brokers, key=lambda b: int(b.broker_id))
    )
    fenced_ids = tuple(b.broker_id for b in response.brokers if b.is_fenced)
    return ClusterDescription(response.cluster_id, response.controller_id, brokers, fenced_ids)


@for_both
async def features(cluster: AnyCluster) -> list[FeatureRange]:
    """`features(cluster)` -> every feature the broker supports, with the level the cluster agreed on."""
    request = ApiVersionsRequest(client_software_name="barnabas", client_software_version=__version__)
    response = await cluster.ask(request)
    _check(response, "describing the features")
    final = {f.name: f.max_version_level for f in response.finalized_features}
    epoch = response.finalized_features_epoch
    return [
        FeatureRange(f.name, f.min_version, f.max_version, final.get(f.name, 0), epoch)
        for f in sorted(response.supported_features, key=lambda f: str(f.name))
    ]


def _check(response: Any, what: str) -> None:
    if response.error_code:
        said = getattr(response, "error_message", None) or "refused"
        raise KafkaError(ErrorCode(response.error_code), f"{what}: {said}")
