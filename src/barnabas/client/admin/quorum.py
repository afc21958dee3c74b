"""Changing the quorum and the cluster's members: what goes to the active controller, wherever one asks.

    with Cluster("127.0.0.1:9093") as cluster:
        add_controller(cluster, 4, directory_id, [("CONTROLLER", "10.0.0.4", 9093)])

A broker hands such a request on by itself.  A controller that is not active refuses it; then the active
one is looked for (DescribeCluster on a controllers' listener names it, KIP-919) and asked directly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from barnabas.client.admin.described import QuorumDescription
from barnabas.client.connection import ConnectionFailed, first_of
from barnabas.client.for_both import AnyCluster, AnyConnection, for_both
from barnabas.client.metadata import parse_bootstrap
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.model import ANY_VOTER, METADATA_TOPIC, DirectoryId, NodeId
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.brokers import UnregisterBrokerRequest, UnregisterControllerRequest
from barnabas.wire.schemas.cluster import DescribeClusterRequest
from barnabas.wire.schemas.configs import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.wire.schemas.quorum import (
    AddRaftVoterRequest,
    AddRaftVoterRequestListener,
    RemoveRaftVoterRequest,
)
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
    ReassignablePartition,
    ReassignableTopic,
)

__all__ = [
    "add_controller",
    "advice",
    "ask_active",
    "controllers_under_way",
    "find_active",
    "reassign_controllers",
    "registered_controllers",
    "remove_controller",
    "transfer_leadership",
    "unregister_broker",
    "unregister_controller",
    "update_features",
]

CONTROLLERS = 2
"""Endpoint type of DescribeCluster on a controllers' listener."""
_ELSEWHERE = (ErrorCode.NOT_CONTROLLER, ErrorCode.NOT_LEADER_OR_FOLLOWER)


@for_both
async def ask_active(cluster: AnyCluster, request: Message) -> Any:
    """`ask_active(cluster, request)` -> the active controller's answer, retried while controllers change.

    Raises ConnectionFailed, or KafkaError NOT_CONTROLLER when no controller became active in time.
    """
    active: list[AnyConnection] = []

    async def attempt() -> Any:
        line = active[0] if active else await cluster.any()
        try:
            response = await line.request(request)
        except ConnectionFailed as error:
            if not active:
                raise
            await active.pop().close()
            raise KafkaError(ErrorCode.NOT_CONTROLLER, f"the active controller is gone: {error}") from error
        for code in _codes_of(response):
            if code in _ELSEWHERE:
                while active:
                    await active.pop().close()
                found = await find_active(cluster)
                if found is not None:
                    active.append(found)
                raise KafkaError(
                    ErrorCode(code),
                    "no active controller is known",
                    next_step="`barnabas quorum -C HOST:PORT describe --detail` says who is missing",
                )
        return response

    try:
        return await cluster.retrying(attempt)
    finally:
        for line in active:
            await line.close()


async def find_active(cluster: AnyCluster) -> AnyConnection | None:
    """A connection to the active controller, if a controller was asked and knows it."""
    response = await (await cluster.any()).request(DescribeClusterRequest(endpoint_type=CONTROLLERS))
    if response.error_code:
        return None  # a broker: it looks for the controller itself
    for node in response.brokers:
        if node.broker_id == response.controller_id:
            with suppress(ConnectionFailed):
                return await cluster.dial(node.host, node.port)
    return None


async def registered_controllers(cluster: AnyCluster, quorum: QuorumDescription) -> set[NodeId] | None:
    """Return the ids of all controllers, voters or not; None where only brokers can be reached.

    Brokers do not tell them, so the leader is asked on its own listener.
    """
    request = DescribeClusterRequest(endpoint_type=CONTROLLERS)
    leader = quorum.leader_replica
    with suppress(BarnabasError):
        answer = await (await cluster.any()).request(request)
        if answer.error_code and leader is not None and leader.endpoints:
            [(host, port)] = parse_bootstrap(leader.endpoints[0].partition("://")[2])
            line = await cluster.dial(host, port)
            try:
                answer = await line.request(request)
            finally:
                await line.close()
        if not answer.error_code:
            return {node.broker_id for node in answer.brokers}
    return None


def _codes_of(response: Any) -> list[int]:
    """The error codes that say whether a controller was reached."""
    parts = [response]
    for group in ("topics", "responses", "results"):
        for part in getattr(response, group, ()):
            parts.append(part)
            parts += getattr(part, "partitions", ())
    return [part.error_code for part in parts if hasattr(part, "error_code")]


def _check(response: Any, what: str) -> None:
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise KafkaError(code, f"{what}: {response.error_message or 'refused'}", next_step=advice(code))


def advice(code: ErrorCode) -> str:
    """What to do about a refused change of the quorum."""
    return _ADVICE.get(
        code, "`barnabas quorum describe --detail` shows voters, changes and what they wait for"
    )


def server_timeout_ms(seconds: float) -> int:
    """How long a server may try, so that its reason arrives before a client of `seconds` gives up."""
    return int(1000 * (seconds - min(2.0, seconds / 4)))


_ADVICE = {
    ErrorCode.DUPLICATE_VOTER: "nothing is to be done, but for a new disk: `barnabas quorum replace --node ID`",
    ErrorCode.VOTER_NOT_FOUND: "`barnabas quorum describe --status` shows the voters; before the last one goes, "
    "`barnabas quorum --command-config FILE add-controller` adds another",
    ErrorCode.REQUEST_TIMED_OUT: "look at `barnabas quorum describe --detail` before asking again",
    ErrorCode.REASSIGNMENT_IN_PROGRESS: "`barnabas quorum reassign` shows it; `reassign --cancel` ends it",
    ErrorCode.NO_REASSIGNMENT_IN_PROGRESS: "nothing to do; `barnabas quorum describe --detail` shows the voters",
    ErrorCode.INVALID_REPLICA_ASSIGNMENT: "`barnabas quorum describe --detail` shows who could vote",
    ErrorCode.UNSUPPORTED_VERSION: "`barnabas features upgrade --feature kraft.version=1` allows it",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "ask a controller of the other cluster, or format the node's empty disk: "
    "`barnabas storage format -t CLUSTER_ID -c FILE --no-initial-controllers`",
    ErrorCode.BROKER_ID_NOT_REGISTERED: "`barnabas cluster list-endpoints --include-fenced-brokers` shows them",
    ErrorCode.CONTROLLER_ID_NOT_REGISTERED: "`barnabas cluster list-endpoints -C HOST:PORT`, with the address "
    "of a controller, shows them",
}


@for_both
async def add_controller(
    cluster: AnyCluster,
    controller: NodeId,
    directory_id: DirectoryId,
    endpoints: Iterable[tuple[str, str, int]],
    cluster_id: str | None = None,
    *,
    force: bool = False,
) -> None:
    """`add_controller(cluster, 4, directory_id, [("CONTROLLER", "host", 9093)])`: a voter more (KIP-853).

    Returns when a majority of the new set has it.  `force`: also on the way to a target.
    """
    listeners = [
        AddRaftVoterRequestListener(name=name, host=host, port=port) for name, host, port in endpoints
    ]
    response = await ask_active(
        cluster,
        AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=server_timeout_ms(cluster.timeout),
            voter_id=controller,
            voter_directory_id=directory_id,
            listeners=listeners,
            force=force,
        ),
    )
    _check(response, f"adding controller {controller}")


@for_both
async def remove_controller(
    cluster: AnyCluster,
    controller: NodeId,
    directory_id: DirectoryId,
    cluster_id: str | None = None,
    *,
    force: bool = False,
) -> None:
    """`remove_controller(cluster, 4, directory_id)`: the voter becomes an observer (KIP-853).

    `force`: also on the way to a target.
    """
    response = await ask_active(
        cluster,
        RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=controller, voter_directory_id=directory_id, force=force
        ),
    )
    _check(response, f"removing controller {controller}")


@for_both
async def reassign_controllers(cluster: AnyCluster, controllers: Iterable[NodeId] | None) -> None:
    """`reassign_controllers(cluster, [4, 5, 6])`: the voters to come; None withdraws (KIP-642, Barnabas only).

    Returns when the target is committed; the leader then reaches it by single changes.
    """
    replicas = None if controllers is None else list(controllers)
    await _alter(
        cluster, ReassignablePartition(partition_index=0, replicas=replicas), "changing the controllers"
    )


@for_both
async def transfer_leadership(cluster: AnyCluster, to: NodeId | None = None, *, force: bool = False) -> None:
    """Have this voter lead the quorum, None: any other (Barnabas only; an Apache Kafka node refuses it).

    Returns when the leader has stepped down; the other then stands for election.  Raises KafkaError.
    """
    # A node that does not know the field refuses an empty set of voters.
    lead = ANY_VOTER if to is None else to
    partition = ReassignablePartition(partition_index=0, replicas=[], lead=lead, force=force)
    await _alter(cluster, partition, "transferring the lead")


async def _alter(cluster: AnyCluster, partition: ReassignablePartition, what: str) -> None:
    topic = ReassignableTopic(name=METADATA_TOPIC, partitions=[partition])
    timeout_ms = server_timeout_ms(cluster.timeout)
    response = await ask_active(
        cluster, AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=[topic])
    )
    _check(response, what)
    row = first_of(first_of(response.responses, what).partitions, what)
    if row.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{what}: the leader runs Apache Kafka, which takes neither a target of voters nor a successor",
            next_step="one at a time: `barnabas quorum --command-config FILE add-controller` for each that comes, "
            "`barnabas quorum remove-controller --controller-id ID` for each that goes, the leader last",
        )
    _check(row, what)


@for_both
async def controllers_under_way(cluster: AnyCluster) -> tuple[list[NodeId], list[NodeId]] | None:
    """Controllers to come and controllers to go, on the way to a target of `reassign_controllers`."""
    asked = ListPartitionReassignmentsTopics(name=METADATA_TOPIC, partition_indexes=[0])
    response = await ask_active(cluster, ListPartitionReassignmentsRequest(topics=[asked]))
    _check(response, "looking for changes of the controllers")
    for topic in response.topics:
        if topic.name == METADATA_TOPIC:
            row = first_of(topic.partitions, METADATA_TOPIC)
            return list(row.adding_replicas), list(row.removing_replicas)
    return None


@for_both
async def update_features(
    cluster: AnyCluster, levels: Mapping[str, int], *, upgrade_type: int = 1, dry_run: bool = False
) -> None:
    """`update_features(cluster, {"group.version": 1})`: all of these levels, or none.

    `upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade.
    """
    response = await ask_active(
        cluster,
        UpdateFeaturesRequest(
            timeout_ms=int(cluster.timeout * 1000),
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
                for name, level in levels.items()
            ],
            validate_only=dry_run,
        ),
    )
    if response.error_code:
        code = ErrorCode(response.error_code)
        raise KafkaError(code, response.error_message or code.name)


@for_both
async def unregister_broker(cluster: AnyCluster, broker: NodeId) -> None:
    """`unregister_broker(cluster, 3)`: forget a broker that is gone for good."""
    response = await ask_active(cluster, UnregisterBrokerRequest(broker_id=broker))
    _check(response, f"unregistering broker {broker}")


@for_both
async def unregister_controller(cluster: AnyCluster, controller: NodeId) -> None:
    """`unregister_controller(cluster, 3)`: forget the registration of a controller that is gone for good.

    It must be no voter any more.  Raises KafkaError UNSUPPORTED_VERSION below metadata.version 4.4-IV2.
    """
    response = await ask_active(cluster, UnregisterControllerRequest(controller_id=controller))
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"unregistering controller {controller}: {response.error_message or 'refused'}",
            next_step="`barnabas features upgrade --release-version 4.4`, once every node knows it",
        )
    _check(response, f"unregistering controller {controller}")
