"""The settings of a node's quorum, taken out of the configuration once.

Seconds here, milliseconds there.  `idle_interval` is how often an idle active controller writes a NoOp
record.  Kafka writes one every 500 ms, so that followers and brokers can tell an idle log from a stuck one.
If only the node itself reads the log, that is of no use and costs a sync each time.  So a quorum of one
writes none unless `metadata.max.idle.interval.ms` was set.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.client.security.options import PLAINTEXT, Security
from barnabas.config import Config
from barnabas.errors import ConfigError, StorageError
from barnabas.model import ZERO_UUID, DirectoryId, Endpoint, NodeId, ReplicaKey
from barnabas.raft.messages import Supervise
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import Voter, VoterSet
from barnabas.server.net.secure.settings import controllers_security, protocol_id

__all__ = ["LONGEST_CHANGE_S", "QuorumSettings"]

EXCHANGE_S = 30.0
"""Seconds between two exchanges of addresses with another controller, while there is a leader."""
LONGEST_CHANGE_S = 20.0
"""Seconds for which a change of the voters may wait: less than clients wait for one answer (30 s)."""

_AUTOPILOT_S = 1.0
"""Seconds between two looks of the autopilot."""

_FETCH_WAIT_S = 0.5
"""Seconds a fetch waits at most for something new (Kafka's constant); a quarter of a shorter fetch timeout."""


class QuorumSettings(NamedTuple):
    """`endpoints` are this controller's, advertised; `static_voters` those of controller.quorum.voters."""

    key: ReplicaKey
    cluster_id: str
    endpoints: tuple[Endpoint, ...]
    raft: RaftConfig
    static_voters: VoterSet = VoterSet.EMPTY
    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    snapshot_bytes: int = 20 << 20
    snapshot_interval: float = 3600.0
    retention_bytes: int = 100 << 20
    reserve_bytes: int = 0
    retention_ms: int = 604_800_000
    idle_interval: float = 0.5
    idle_when_alone: bool = False
    session_timeout: float = 9.0
    autopilot: Supervise | None = None
    """How the autopilot looks, the standbys left out; None: it is off."""
    protocol: int = 0
    """Kafka's number for the protocol of the controllers' listener."""
    security: Security = PLAINTEXT
    """What this node shows at other controllers."""

    @classmethod
    def of(
        cls,
        config: Config,
        *,
        cluster_id: str,
        directory_id: DirectoryId,
        endpoints: tuple[Endpoint, ...],
    ) -> QuorumSettings:
        """From a node's configuration and its `meta.properties`."""

        def seconds(name: str) -> float:
            return config.int(name) / 1000

        names = config.list("controller.listener.names")
        listener = names[0].upper() if names else "CONTROLLER"
        return cls(
            key=ReplicaKey(config.node_id, directory_id),
            cluster_id=cluster_id,
            endpoints=endpoints,
            raft=RaftConfig(
                cluster_id=cluster_id,
                listener=listener,
                bootstrap=_bootstrap(config, listener, endpoints),
                can_vote="controller" in config.roles,
                election_timeout=seconds("controller.quorum.election.timeout.ms"),
                fetch_timeout=seconds("controller.quorum.fetch.timeout.ms"),
                fetch_max_wait=min(_FETCH_WAIT_S, seconds("controller.quorum.fetch.timeout.ms") / 4),
                request_timeout=seconds("controller.quorum.request.timeout.ms"),
                retry_backoff=seconds("controller.quorum.retry.backoff.ms"),
                election_backoff_max=seconds("controller.quorum.election.backoff.max.ms"),
                fetch_max_bytes=config.int("controller.quorum.fetch.max.bytes"),
                snapshot_max_bytes=config.int("controller.quorum.fetch.snapshot.max.bytes"),
                exchange_interval=EXCHANGE_S,
                auto_join=config.bool("controller.quorum.auto.join.enable"),
            ),
            static_voters=VoterSet.of(_voter(*voter, listener) for voter in config.voters),
            segment_bytes=config.int("metadata.log.segment.bytes"),
            segment_ms=config.int("metadata.log.segment.ms"),
            snapshot_bytes=config.int("metadata.log.max.record.bytes.between.snapshots"),
            snapshot_interval=seconds("metadata.log.max.snapshot.interval.ms"),
            retention_bytes=config.int("metadata.max.retention.bytes"),
            reserve_bytes=config.int("barnabas.metadata.reserve.bytes"),
            retention_ms=config.int("metadata.max.retention.ms"),
            idle_interval=seconds("metadata.max.idle.interval.ms"),
            idle_when_alone=config.is_given("metadata.max.idle.interval.ms"),
            session_timeout=seconds("broker.session.timeout.ms"),
            autopilot=_autopilot(config),
            protocol=protocol_id(config, listener),
            security=controllers_security(config),
        )

    def check_role(self, voters: VoterSet) -> None:
        """Check that this node does not take a voter's place without its role, as far as its directory says.

        Raises ConfigError where it is in this set and has no controller role.
        """
        if self.raft.can_vote or not voters.has(self.key):
            return
        id_, directory = self.key
        command = f"barnabas quorum remove-controller --controller-id {id_}"
        if directory != ZERO_UUID:
            command += f" --controller-directory-id {directory}"
        raise ConfigError(
            f"node {id_} is a voter of the quorum, and process.roles gives it no controller role: it would be "
            "counted and could not vote",
            next_step=f"set process.roles=broker,controller and start it; then `{command}`, and drop the role "
            "once that is done (also if it was removed while it was down: a start with the role tells it)",
        )

    def check_reachable(self, voters: VoterSet, directory: str) -> None:
        """Whether there can be a leader at all, as far as this node's directory says.

        Raises ConfigError where there is nobody to ask, StorageError where this node would be the only voter,
        but under another directory id than its own.
        """
        if self.raft.bootstrap:
            return
        if not voters:
            raise ConfigError(
                "this directory knows no voters, and there is no other controller to ask",
                next_step="set controller.quorum.bootstrap.servers, or format with --standalone",
            )
        ids = [voter.key.directory_id for voter in voters]
        if [voter.key.id for voter in voters] == [self.key.id] and self.key.directory_id not in (
            *ids,
            ZERO_UUID,
        ):
            if ids != [ZERO_UUID]:
                raise StorageError(
                    f"the only voter is node {self.key.id} in a directory with the id {ids[0]}; meta.properties "
                    f"of {directory} says {self.key.directory_id}",
                    directory=directory,
                    next_step="see docs/disks.md, 'meta.properties is missing or damaged'",
                    fatal=True,
                )


def _voter(id_: NodeId, host: str, port: int, listener: str) -> Voter:
    return Voter(ReplicaKey(id_, ZERO_UUID), (Endpoint(listener, host, port),))


def _autopilot(config: Config) -> Supervise | None:
    mode = config.str("barnabas.quorum.autopilot")
    if mode == "off":
        return None
    return Supervise(
        size=config.int("barnabas.quorum.autopilot.voters"),
        stability=config.int("barnabas.quorum.autopilot.stability.ms") / 1000,
        dead=config.int("barnabas.quorum.autopilot.dead.ms") / 1000,
        interval=_AUTOPILOT_S,
        standbys=(),
        dry_run=mode == "dry-run",
    )


def _bootstrap(config: Config, listener: str, own: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
    """The servers to ask for the leader; not this node itself."""
    servers = []
    for text in config.list("controller.quorum.bootstrap.servers"):
        host, _, port = text.rpartition(":")
        servers.append(Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port)))
    return tuple(server for server in servers if server not in own)
