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
from barnabas.client.cluster import Cluster
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


@for_both
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


def add_controller(
    cluster: Cluster,
    controller: NodeId,
    directory_id: DirectoryId,
    endpoints: Iterable[tuple[str, str, int]],
    cluster_id: str | None = None,
    *,
    force: bool = False,
) -> None:
    """Make a controller that follows a voter (KIP-853).  `endpoints`: listener, host, port.

    Returns when a majority of the new set has it.  `force`: also on the way to a target.  Raises KafkaError with
    the reason.
    """
    listeners = [
        AddRaftVoterRequestListener(name=name, host=host, port=port) for name, host, port in endpoints
    ]
    response = ask_active(
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


def remove_controller(
    cluster: Cluster,
    controller: NodeId,
    directory_id: DirectoryId,
    cluster_id: str | None = None,
    *,
    force: bool = False,
) -> None:
    """Make a voter an observer (KIP-853); with `force` also on the way to a target.  Raises KafkaError."""
    response = ask_active(
        cluster,
        RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=controller, voter_directory_id=directory_id, force=force
        ),
    )
    _check(response, f"removing controller {controller}")


def reassign_controllers(cluster: Cluster, controllers: Iterable[NodeId] | None) -> None:
    """Set the target set of voters, by id; None withdraws it (KIP-642, Barnabas only).

    Returns when the target is committed; the leader then reaches it by single changes.  Raises KafkaError.
    """
    replicas = None if controllers is None else list(controllers)
    _alter(cluster, ReassignablePartition(partition_index=0, replicas=replicas), "changing the controllers")


def transfer_leadership(
    cluster: Cluster, to: NodeId | None = None, *, force: bool = False, timeout: float | None = None
) -> None:
    """Have this voter lead the quorum, None: any other (Barnabas only; an Apache Kafka node refuses it).

    Returns when the leader has stepped down; the other then stands for election.  Raises KafkaError.
    """
    # A node that does not know the field refuses an empty set of voters.
    lead = ANY_VOTER if to is None else to
    partition = ReassignablePartition(partition_index=0, replicas=[], lead=lead, force=force)
    _alter(cluster, partition, "transferring the lead", timeout)


def _alter(
    cluster: Cluster, partition: ReassignablePartition, what: str, timeout: float | None = None
) -> None:
    topic = ReassignableTopic(name=METADATA_TOPIC, partitions=[partition])
    timeout_ms = server_timeout_ms(cluster.timeout if timeout is None else timeout)
    response = ask_active(cluster, AlterPartitionReassignmentsRequest(timeout_ms=timeout_ms, topics=[topic]))
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


def controllers_under_way(cluster: Cluster) -> tuple[list[NodeId], list[NodeId]] | None:
    """Controllers to come and controllers to go, on the way to a target of `reassign_controllers`."""
    asked = ListPartitionReassignmentsTopics(name=METADATA_TOPIC, partition_indexes=[0])
    response = ask_active(cluster, ListPartitionReassignmentsRequest(topics=[asked]))
    _check(response, "looking for changes of the controllers")
    for topic in response.topics:
        if topic.name == METADATA_TOPIC:
            row = first_of(topic.partitions, METADATA_TOPIC)
            return list(row.adding_replicas), list(row.removing_replicas)
    return None


def update_features(
    cluster: Cluster, levels: Mapping[str, int], upgrade_type: int = 1, *, dry_run: bool = False
) -> None:
    """Finalize these levels (1 upgrade, 2 safe downgrade, 3 unsafe): all of them, or none and KafkaError."""
    response = ask_active(
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


def unregister_broker(cluster: Cluster, broker: NodeId) -> None:
    """Forget a broker that is gone for good (KIP-631).  Raises KafkaError BROKER_ID_NOT_REGISTERED."""
    response = ask_active(cluster, UnregisterBrokerRequest(broker_id=broker))
    _check(response, f"unregistering broker {broker}")


def unregister_controller(cluster: Cluster, controller: NodeId) -> None:
    """Forget the registration of a controller that is gone for good; it must be no voter any more.

    Raises KafkaError: CONTROLLER_ID_NOT_REGISTERED, UNSUPPORTED_VERSION below metadata.version 4.4-IV2.
    """
    response = ask_active(cluster, UnregisterControllerRequest(controller_id=controller))
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"unregistering controller {controller}: {response.error_message or 'refused'}",
            next_step="`barnabas features upgrade --release-version 4.4`, once every node knows it",
        )
    _check(response, f"unregistering controller {controller}")
