"""DescribeQuorum (key 55): answered by every controller, and by brokers with the active controller's answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.errors import ErrorCode
from barnabas.model import ANY_VOTER, ReplicaKey, VoterCheck
from barnabas.raft.messages import (
    AddVoterRequest,
    ChangeResponse,
    ReassignRequest,
    RemoveVoterRequest,
    Request,
    TransferRequest,
)
from barnabas.server.kraft.driver import Quorum
from barnabas.server.kraft.registration import registered
from barnabas.server.net.context import RequestContext
from barnabas.server.observe.history import lines_of

if TYPE_CHECKING:
    from barnabas.wire.schemas.own import BootstrapQuorumRequest, BootstrapQuorumResponse
    from barnabas.wire.schemas.quorum import (
        DescribeQuorumRequest,
        DescribeQuorumRequestPartitionData,
        DescribeQuorumResponse,
    )

__all__ = ["QuorumApi"]


class QuorumApi:
    """Says what this node sees of the quorum.  A controller that does not lead says who does."""

    __slots__ = ("_quorum",)

    def __init__(self, quorum: Quorum) -> None:
        self._quorum = quorum

    def describe(self, context: RequestContext, request: DescribeQuorumRequest) -> DescribeQuorumResponse:
        """DescribeQuorum (key 55; KIP-595, KIP-836)."""
        from barnabas.server.api.describe_quorum import describe_quorum  # a start does not need it

        quorum = self._quorum
        known = quorum.image.controllers
        return describe_quorum(
            quorum.describe(),
            request,
            controllers=known,
            leaderless_ms=quorum.leaderless.ms,
            check=self._check,
            history=lambda: lines_of(quorum.image.cluster_config()),
        )

    def bootstrap(self, context: RequestContext, request: BootstrapQuorumRequest) -> BootstrapQuorumResponse:
        """BootstrapQuorum (ours): this node is of a cluster already, and begins no other one."""
        from barnabas.wire.schemas.own import BootstrapQuorumResponse  # hardly ever asked

        settings = self._quorum.settings
        same = request.cluster_id == settings.cluster_id
        why = f"this node is of cluster {settings.cluster_id} already"
        return BootstrapQuorumResponse(
            error_code=0 if same else int(ErrorCode.INVALID_REQUEST),
            error_message=None if same else why,
            cluster_id=settings.cluster_id,
            node_id=settings.key.id,
        )

    def _check(self, asked: DescribeQuorumRequestPartitionData) -> ChangeResponse:
        voters = [ReplicaKey(node_id, asked.check_directory_id) for node_id in asked.check_voters]
        change: Request
        if asked.check in (VoterCheck.ADD, VoterCheck.REMOVE) and len(voters) == 1:
            voter, force = voters[0], asked.check_force
            change = RemoveVoterRequest(voter, force=force)
            if asked.check == VoterCheck.ADD:
                change = AddVoterRequest(voter, (), force=force)
        elif asked.check == VoterCheck.TRANSFER and len(voters) == 1:
            to = None if voters[0].id == ANY_VOTER else voters[0].id
            change = TransferRequest(to, force=asked.check_force)
        elif asked.check == VoterCheck.TARGET:
            change = ReassignRequest(tuple(asked.check_voters), registered(self._quorum.image))
        elif asked.check == VoterCheck.CANCEL:
            change = ReassignRequest(None)
        else:
            why = f"there is no check {asked.check} of {len(voters)} voters"
            return ChangeResponse(ErrorCode.INVALID_REQUEST, why)
        return self._quorum.check(change)
