"""The broker of a node: made, registered, and kept as the metadata say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from barnabas.broker.groups.coordinator import Groups
from barnabas.broker.replicas.broker import Broker
from barnabas.broker.transactions.coordinator import Transactions
from barnabas.broker.transactions.state import Transaction
from barnabas.config import Config
from barnabas.controller.feature_levels import METADATA_VERSION
from barnabas.controller.image import RESOURCE_BROKER, BrokerEndpoint, ImageDelta
from barnabas.controller.versions import CORDONED
from barnabas.errors import ConfigError, StorageError
from barnabas.model import BrokerEpoch, DirectoryId, Endpoint, NodeId, Offset
from barnabas.ports import Disk
from barnabas.server.api.metadata import TopicAnswers
from barnabas.server.api.telemetry import TelemetryApi
from barnabas.server.kraft.driver import Quorum
from barnabas.server.net.network import Network
from barnabas.server.net.secure.settings import protocol_id
from barnabas.server.node.storage_setup import StorageSetup
from barnabas.server.observe import events
from barnabas.server.replication.applier import Applier
from barnabas.server.replication.both_kinds import BothKinds
from barnabas.server.replication.broker_connections import PeerListener
from barnabas.server.replication.clock_check import ClockCheck
from barnabas.server.replication.host import NodeHost
from barnabas.server.replication.leader_suspicion import LeaderSuspicion
from barnabas.server.replication.lifecycle import BrokerLifecycle, Disks, LifecycleSettings
from barnabas.server.replication.marker_sender import MarkerSender
from barnabas.server.replication.previous_epoch import PreviousEpoch, everything_is_synced
from barnabas.server.replication.probes import Probes
from barnabas.server.replication.replica_fetcher import Fetchers
from barnabas.server.replication.shared_address import SharedAddresses
from barnabas.server.replication.txn_verifier import TransactionVerifier
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequestIncomplete,
    BrokerHeartbeatRequestLeaderless,
    BrokerHeartbeatRequestRefused,
)

if TYPE_CHECKING:
    from barnabas.server.rights.authorizer import NodeAuthorizer

__all__ = ["BrokerPart"]

"""Security protocol of every listener of this release."""


class BrokerPart:
    """Made when the metadata is there.  `register`, `open`, serve clients; `stop_following`, `stop`.

    `advertised` are the listeners of this broker as others know them; `peers` is the name of the listener by
    which brokers reach each other; `reconfigured` hears of settings that changed at run time.
    """

    def __init__(
        self,
        network: Network,
        quorum: Quorum,
        applier: Applier,
        home: StorageSetup,
        disk: Disk,
        *,
        advertised: Sequence[Endpoint],
        peers: PeerListener,
        reconfigured: Callable[[Config], None],
        on_fatal: Callable[[Exception], None],
        authorizer: NodeAuthorizer | None = None,
    ) -> None:
        """Raises ConfigError for a setting about directories that are not there."""
        self._runtime = runtime = network.runtime
        self._quotas = network.throttle.quotas
        self._given = config = runtime.config  # without what was changed at run time
        self._quorum = quorum
        self._applier, self._home = applier, home
        self._reconfigured = reconfigured
        self._refused: dict[str, str] = {}  # stored settings that were told of as unusable, with the reason
        self._registered = self._following = False
        _cordon(home, config)
        self._previous_epoch = PreviousEpoch(disk, home.logs.directories)
        settings = LifecycleSettings.of(
            config,
            cluster_id=home.cluster_id,
            listeners=[
                BrokerEndpoint(e.listener, e.host, e.port, protocol_id(config, e.listener))
                for e in advertised
            ],
            directories=[directory.directory_id for directory in home.logs.online()],
            previous_epoch=self._previous_epoch.epoch(),
            unclean_stop=not all(directory.was_clean for directory in home.logs.directories),
            incarnation=self._previous_epoch.incarnation(runtime.random.uuid()),
        )
        self.lifecycle = BrokerLifecycle(
            quorum.request,
            settings,
            metadata_offset=self._applied_offset,
            random=runtime.random,
            cordoned=self._cordoned,
            disks=self._disks,
            given_away=self._leads_no_more,
            clock=ClockCheck(runtime.clock, self._clock_changed),
            on_registered=self._remember,
            on_fatal=on_fatal,
        )
        self._host = NodeHost(
            runtime,
            self.lifecycle,
            quorum.request,
            memory=network.memory,
            logs=home.logs,
            metadata_directory=config.metadata_log_dir,
            on_fatal=on_fatal,
        )
        self.broker = self._make_broker(authorizer)
        self.groups = Groups(config, runtime.random, self.broker)
        self.transactions = Transactions(config, self.broker, on_timeout=_transaction_timed_out)
        self.telemetry = TelemetryApi(runtime, quorum)
        self._addresses = SharedAddresses(runtime.node_id)
        self.marker_sender = MarkerSender(runtime, quorum.image, self.transactions.markers, peers)
        self.answers = TopicAnswers(quorum.image)
        self.suspicion = LeaderSuspicion(runtime.clock, runtime.node_id)
        self.probes = Probes(runtime, quorum.image, self.suspicion, peers)
        self.fetchers = Fetchers(runtime, self.broker, quorum.image, self.suspicion, peers)
        self.verifier = TransactionVerifier(runtime, self.broker, quorum.image, peers)
        self._both_kinds = BothKinds(runtime, quorum.image, peers)

    def _make_broker(self, authorizer: NodeAuthorizer | None) -> Broker:
        runtime, logs = self._runtime, self._home.logs
        broker = Broker(
            self._given,
            runtime.node_id,
            logs,
            self._quorum.image,
            host=self._host,
            random=runtime.random,
            authorizer=authorizer,
        )
        if authorizer is not None:
            authorizer.on_change(broker.rights_changed)
        return broker

    def _leads_no_more(self, since: Offset) -> None:
        self.broker.gave_away(since)
        self._runtime.step.soon()

    def _disks(self) -> Disks:
        incomplete = [
            BrokerHeartbeatRequestIncomplete(topic_id=partition.topic_id, partition_index=partition.index)
            for partition in self.broker.lacking
        ]
        refused = [
            BrokerHeartbeatRequestRefused(
                topic_id=partition.topic_id, partition_index=partition.index, leader_epoch=epoch
            )
            for partition, epoch in self.broker.refusals
        ]
        return Disks(self.broker.unfit_directories, incomplete, self._leaderless(), refused)

    @property
    def stops_clean(self) -> bool:
        """True if the next life needs to know nothing of an unclean stop that came before this one."""
        return not (self.lifecycle.settings.unclean_stop and self.broker.claims_unproven())

    def _leaderless(self) -> list[BrokerHeartbeatRequestLeaderless]:
        """Up to where the logs of leaderless partitions are whole: the controller may have to compare them."""
        found: list[BrokerHeartbeatRequestLeaderless] = []
        for partition in self.broker.leaderless:
            if not partition.offline:
                log = partition.log
                end = log.damage[0].start if log.damage else log.log_end_offset
                found.append(
                    BrokerHeartbeatRequestLeaderless(
                        topic_id=partition.topic_id,
                        partition_index=partition.index,
                        leader_epoch=log.epoch_at(end - 1),
                        end_offset=end,
                    )
                )
        return found

    def _clock_changed(self, agrees: bool) -> None:
        self.broker.clock_agrees = agrees

    async def register(self) -> None:
        """Be known to the controllers, and know what they knew then."""
        await self._quorum.committed.reached(await self.lifecycle.register())
        self.broker.proven.clear()  # what older metadata said is of the life before

    async def open(self) -> None:
        """Open what the metadata says this broker hosts, and follow the metadata from now on."""
        runtime, broker = self._runtime, self.broker
        self._registered = self._following = True
        self._applier.follow(broker)
        broker.reconciler.new_logs.aside = True
        runtime.step.drive(broker, (self.groups, self.transactions), self._applier.soon)
        self._host.serve(broker, self.fetchers, self.verifier)
        self._reconfigure()
        self._quotas.follow(self._quorum.image.client_quotas)
        broker.begin(runtime.clock.now())
        self._quorum.on_change(self._metadata_changed)
        self._both_kinds.begin()
        self._applier.soon()
        await self._applier.applied()
        if not self._all_is_synced():
            self._previous_epoch.remember(self.lifecycle.epoch, synced=False)

    def unreadable(self, error: StorageError) -> None:
        """A disk could not read a file that an answer needs."""
        if self._registered:
            self.broker.unreadable(error, self._runtime.clock.now())
            self._runtime.step.soon()

    def stop_following(self) -> None:
        """The node stops: the broker does not follow the metadata any more."""
        self._following = False

    # -- what the controllers are told --

    def _remember(self, epoch: BrokerEpoch) -> None:
        """This broker is registered under a new epoch, and not in sync anywhere yet."""
        self._previous_epoch.remember(epoch, synced=self._all_is_synced())

    def _all_is_synced(self) -> bool:
        return everything_is_synced(self._given, self._quorum.image, self._runtime.node_id)

    def _applied_offset(self) -> Offset:
        """Up to where this node is what the metadata say."""
        return self.broker.applied_offset if self._registered else self._quorum.image.offset

    def _cordoned(self) -> list[DirectoryId] | None:
        """The directories that take no new replicas; None where the controllers know no such thing."""
        if self._quorum.image.feature(METADATA_VERSION) < CORDONED:
            return None
        return sorted(one.directory_id for one in self._home.logs.directories if one.cordoned)

    # -- following the metadata --

    def _metadata_changed(self, delta: ImageDelta) -> None:
        """A commit was replayed: everything that depends on the metadata follows."""
        now = self._runtime.clock.now()
        self.answers.changed(delta)
        self.suspicion.changed(delta)
        self.telemetry.changed(delta)
        if not self._following:
            return
        if delta.quotas:
            self._quotas.follow(delta.image.client_quotas)
        if any(kind == RESOURCE_BROKER for kind, _ in delta.configs):
            self._reconfigure()
        if delta.configs and not self._all_is_synced():
            self._previous_epoch.remember(self.lifecycle.epoch, synced=False)
        self._applier.changed(delta)
        self._both_kinds.changed(delta)
        self.lifecycle.metadata_changed(delta)
        if delta.brokers or delta.controllers:
            self._addresses.look(delta.image)
        if _somebody_leaves(delta, self._runtime.node_id):
            self._applier.then(self.lifecycle.report_soon)
        self.groups.metadata_changed(delta, now)

    def _reconfigure(self) -> None:
        """Take over the settings that were changed at run time, for all brokers or for this one."""
        runtime, image = self._runtime, self._quorum.image
        own = image.broker_config(runtime.node_id)
        config, refused = self._given.with_stored({**image.cluster_config(), **own})
        for name, reason in refused.items():
            if self._refused.get(name) != reason:
                of = runtime.node_id if name in own else "''"
                events.emit(
                    events.SETTING_REFUSED,
                    setting=name,
                    reason=reason,
                    next=f"barnabas configs reset broker {of} {name}",
                )
        self._refused = refused
        if config is not self._given or runtime.config is not self._given:
            runtime.config = config
            before = self._cordoned()
            self.broker.reconfigure(runtime.config)
            if self._cordoned() != before:
                self.lifecycle.report_soon()
            self._reconfigured(runtime.config)

    def __repr__(self) -> str:
        return f"<BrokerPart {self.lifecycle}>"


def _cordon(home: StorageSetup, config: Config) -> None:
    """Cordon the directories that the settings name.  Raises ConfigError for one that is not there."""
    if unknown := home.logs.cordon(config.list("cordoned.log.dirs")):
        raise ConfigError(
            f"cordoned.log.dirs names {', '.join(unknown)}, which is not among log.dirs",
            next_step="name directories as log.dirs has them, or * for all of them",
        )


def _transaction_timed_out(transactional_id: str, state: Transaction) -> None:
    events.emit(
        events.TRANSACTION_TIMED_OUT,
        reason="",
        id=transactional_id,
        producer=state.producer_id,
        epoch=state.epoch,
        timeout_ms=state.timeout_ms,
        partitions=len(state.partitions),
    )


def _somebody_leaves(delta: ImageDelta, but: NodeId) -> bool:
    """Whether a broker on its way out was touched: it may go when all others have replayed what moved."""
    brokers = delta.image.brokers
    return any(
        id_ != but and (broker := brokers.get(id_)) is not None and broker.in_controlled_shutdown
        for id_ in delta.brokers
    )
