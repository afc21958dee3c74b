"""The voters there should be, as a reassignment of the metadata partition (KIP-642).

AlterPartitionReassignments (key 45) on `__cluster_metadata`-0 names the final set of controllers, by id;
replicas null cancels.  A field of ours names the voter that shall lead instead (replicas are empty then).  Apache
Kafka answers UNKNOWN_TOPIC_OR_PARTITION there, so no tool of its own depends on it.  What is under way is listed
like any other reassignment (key 46).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from barnabas.controller.image import MetadataImage, PartitionState, Topic
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import ANY_VOTER, METADATA_TOPIC, NO_NODE
from barnabas.raft.membership.target import TARGET, parse_target
from barnabas.raft.messages import ChangeResponse, ReassignRequest, TransferRequest
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.driver import Quorum
from barnabas.server.kraft.registration import registered
from barnabas.server.kraft.settings import LONGEST_CHANGE_S
from barnabas.server.net.context import RequestContext
from barnabas.server.observe.history import asker
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.reassignment import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopic,
    ReassignableTopicResponse,
)

__all__ = ["ReassignmentApi", "ongoing"]


class ReassignmentApi:
    """Moves of replicas, and of the quorum's voters, on the active controller."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def alter(
        self, context: RequestContext, request: AlterPartitionReassignmentsRequest
    ) -> asyncio.Future[Message]:
        """AlterPartitionReassignments (key 45; KIP-455, KIP-642)."""
        if not any(topic.name == METADATA_TOPIC for topic in request.topics):
            return self._quorum.submit(request, context.version)
        return asyncio.get_running_loop().create_task(self._alter(context, request))

    async def _alter(self, context: RequestContext, request: AlterPartitionReassignmentsRequest) -> Message:
        if not self._quorum.is_active_controller:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        responses: list[ReassignableTopicResponse] = []
        others = [topic for topic in request.topics if topic.name != METADATA_TOPIC]
        if others:
            answer = await self._quorum.submit(_of(request, others), context.version)
            assert isinstance(answer, AlterPartitionReassignmentsResponse)
            if answer.error_code:
                return answer
            responses += answer.responses
        for topic in request.topics:
            if topic.name == METADATA_TOPIC:
                seconds = request.timeout_ms / 1000
                responses.append(await self._set_target(topic, seconds, asker(context)))
        return AlterPartitionReassignmentsResponse(error_message=None, responses=responses)

    async def _set_target(
        self, topic: ReassignableTopic, seconds: float, by: str
    ) -> ReassignableTopicResponse:
        rows = []
        for partition in topic.partitions:
            answer = ChangeResponse(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the quorum has one partition")
            if partition.partition_index == 0:
                change = self._change(partition, min(seconds, LONGEST_CHANGE_S))
                if isinstance(change, TransferRequest):
                    self._note_transfer(change, by)
                given = await self._quorum.change(change, by)
                assert isinstance(given, ChangeResponse)
                answer = given
            if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.NOT_CONTROLLER, answer.message or "")
            rows.append(
                ReassignablePartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=answer.error,
                    error_message=answer.message,
                )
            )
        return ReassignableTopicResponse(name=METADATA_TOPIC, partitions=rows)

    def _change(self, asked: ReassignablePartition, seconds: float) -> ReassignRequest | TransferRequest:
        """Who shall lead, or who shall vote."""
        if asked.lead != NO_NODE:
            to = None if asked.lead == ANY_VOTER else asked.lead
            return TransferRequest(to, seconds, force=asked.force)
        target = None if asked.replicas is None else tuple(asked.replicas)
        return ReassignRequest(target, registered(self._quorum.image), seconds)

    def _note_transfer(self, change: TransferRequest, by: str) -> None:
        """Before it happens: afterwards this node may append nothing.  The successor has it when it leads."""
        said = self._quorum.check(change).error
        if said in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT) and change.to != self._quorum.leader_id:
            to = "" if change.to is None else f" to {change.to}"
            what = f"transfer the lead from {self._quorum.leader_id}{to}"
            self._quorum.steps.append_own(self._quorum.history.note(by, what, "asked for"))

    def list(
        self, context: RequestContext, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """ListPartitionReassignments (key 46; KIP-455): replicas that come or go, as the active controller has it.

        Who has just been told that a move began must find it here, so a broker that may be behind does not say.
        The quorum's own move is in the log that every controller has, so any of them says how far it is.
        """
        only_voters = request.topics is not None and all(t.name == METADATA_TOPIC for t in request.topics)
        if not self._quorum.is_active_controller and not only_voters:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        image = self._quorum.image

        def asked() -> Iterator[tuple[Topic, PartitionState]]:
            if request.topics is None:
                for topic in image.topics_by_name.values():
                    yield from ((topic, state) for state in topic.partitions.values())
                return
            for one in request.topics:
                named = image.topic(one.name)
                if named is not None:
                    states = (named.partitions.get(index) for index in one.partition_indexes)
                    yield from ((named, state) for state in states if state is not None)

        moving: dict[str, list[OngoingPartitionReassignment]] = {}
        for topic, state in asked():
            if state.adding or state.removing:
                moving.setdefault(topic.name, []).append(
                    OngoingPartitionReassignment(
                        partition_index=state.index,
                        replicas=list(state.replicas),
                        adding_replicas=list(state.adding),
                        removing_replicas=list(state.removing),
                    )
                )
        topics = [OngoingTopicReassignment(name=name, partitions=rows) for name, rows in moving.items()]
        if request.topics is None or any(one.name == METADATA_TOPIC for one in request.topics):
            if (voters := ongoing(self._quorum.image, self._quorum.voters)) is not None:
                topics.append(voters)
        return ListPartitionReassignmentsResponse(error_message=None, topics=topics)


def _of(
    request: AlterPartitionReassignmentsRequest, topics: list[ReassignableTopic]
) -> AlterPartitionReassignmentsRequest:
    return AlterPartitionReassignmentsRequest(
        timeout_ms=request.timeout_ms,
        allow_replication_factor_change=request.allow_replication_factor_change,
        topics=topics,
    )


def ongoing(image: MetadataImage, voters: VoterSet) -> OngoingTopicReassignment | None:
    """The change to a target set that is under way, as far as this node has replayed; None: there is none."""
    text = image.cluster_config().get(TARGET)
    if text is None:
        return None
    present, target = list(voters.ids), [member.key.id for member in parse_target(text)]
    row = OngoingPartitionReassignment(
        partition_index=0,
        replicas=[*target, *(id_ for id_ in present if id_ not in target)],
        adding_replicas=[id_ for id_ in target if id_ not in present],
        removing_replicas=[id_ for id_ in present if id_ not in target],
    )
    return OngoingTopicReassignment(name=METADATA_TOPIC, partitions=[row])
