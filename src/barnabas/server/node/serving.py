"""Builds what a listener serves: the parts that answer, bound to the rows of the table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.transactions.answering import TransactionRequests
from barnabas.server.api.admin import AdminApi
from barnabas.server.api.auto_topics import AutoTopics
from barnabas.server.api.cluster import ClusterApi
from barnabas.server.api.controller import ControllerApi
from barnabas.server.api.data import DataApi
from barnabas.server.api.directories import DirectoryApi
from barnabas.server.api.envelope import EnvelopeApi
from barnabas.server.api.features import FeatureApi
from barnabas.server.api.forwarding import handler_for
from barnabas.server.api.groups import GroupApi
from barnabas.server.api.loggers import LoggersFirst
from barnabas.server.api.metadata import MetadataApi, TopicAnswers
from barnabas.server.api.quorum import QuorumApi
from barnabas.server.api.reassignments import ReassignmentApi
from barnabas.server.api.table import handler_of, served_on
from barnabas.server.api.telemetry import TelemetryApi
from barnabas.server.api.transactions import TransactionApi
from barnabas.server.kraft.driver import Quorum
from barnabas.server.loop.runtime import Runtime
from barnabas.server.net.addresses import Addresses
from barnabas.server.net.fetch_door import FetchDoor
from barnabas.server.net.network import Network
from barnabas.server.net.produce_door import ProduceDoor
from barnabas.server.net.requests import Requests
from barnabas.server.net.route import Handler, Route, Row
from barnabas.server.net.secure.sasl import SaslApi
from barnabas.server.observe.traffic import Traffic
from barnabas.server.replication.applier import Applier
from barnabas.server.replication.fast_fencing import FastFencing
from barnabas.server.replication.leader_suspicion import Ask, LeaderSuspicion
from barnabas.server.rights.tokens import TOKEN_KEYS, TokenDoor

if TYPE_CHECKING:
    from barnabas.broker.groups.coordinator import Groups
    from barnabas.broker.replicas.broker import Broker
    from barnabas.broker.transactions.coordinator import Transactions
    from barnabas.server.net.secure.logins import Logins
    from barnabas.server.rights.authorizer import NodeAuthorizer

__all__ = ["Serving"]

_INCREMENTAL_ALTER_CONFIGS = 44


class Serving:
    """What both kinds of listeners of one node have in common."""

    def __init__(
        self,
        network: Network,
        quorum: Quorum,
        applier: Applier,
        fencing: FastFencing | None,
        authorizer: NodeAuthorizer | None = None,
        logins: Logins | None = None,
    ) -> None:
        self._network = network
        self._quorum = quorum
        self._applier = applier
        self._authorizer = authorizer
        runtime = network.runtime
        self._runtime: Runtime = runtime
        self._traffic = Traffic(runtime.metrics)
        self._addresses = Addresses(runtime.node_id, quorum.image)
        self._apis: tuple[object, ...] = (
            quorum.steps,
            ControllerApi(runtime, quorum, fencing),
            QuorumApi(quorum),
            FeatureApi(quorum),
            ReassignmentApi(quorum),
            AdminApi(runtime, quorum.image, authorizer),
            SaslApi(logins),
        )
        self._guarded: Callable[[Row, Handler], Handler] = lambda row, handler: handler
        if authorizer is not None:
            from barnabas.server.rights.guards import guarded
            from barnabas.server.rights.rights import Rights

            self._guarded = partial(guarded, Rights(authorizer, quorum.image))

    def to_controllers(self) -> Requests:
        """What a listener of kind "C" serves."""
        rows = served_on("C")
        apis = (*self._apis, ClusterApi(rows, self._quorum, self._addresses, self._authorizer))
        enveloped = self._routes((row for row in rows if row.forward), "C", apis)
        envelope = EnvelopeApi(
            self._runtime,
            self._quorum,
            self._applier,
            {route.key: route for route in enveloped},
        )
        others = self._routes((row for row in rows if not row.forward), "C", (*apis, envelope))
        return Requests(self._network, (*enveloped, *others))

    def to_clients(
        self,
        broker: Broker,
        groups: Groups,
        transactions: Transactions,
        telemetry: TelemetryApi,
        answers: TopicAnswers,
        suspicion: LeaderSuspicion,
        ask: Ask,
    ) -> Requests:
        """What a listener of kind "B" serves.  `ask` asks leaders whether they live."""
        runtime, addresses = self._runtime, self._addresses
        rows = served_on("B", unstable=runtime.config.bool("unstable.api.versions.enable"))
        image = self._quorum.image
        topics, traffic = AutoTopics(runtime, self._quorum), self._traffic
        requests = TransactionRequests(transactions, groups.partition_for)
        apis = (
            *self._apis,
            ClusterApi(rows, self._quorum, addresses, self._authorizer, telemetry.not_advertised),
            DataApi(broker, runtime.clock, groups.transactions.complete),
            MetadataApi(runtime, image, addresses, answers, topics, suspicion, ask, self._authorizer),
            GroupApi(runtime, groups, transactions.log, image, addresses, topics, suspicion, ask),
            TransactionApi(runtime, broker, requests, topics),
            DirectoryApi(runtime, broker),
            telemetry,
        )
        return Requests(
            self._network,
            self._routes(rows, "B", apis),
            produces=partial(ProduceDoor, self._network, broker, traffic),
            fetches=partial(FetchDoor, self._network, broker),
        )

    def _routes(self, rows: Iterable[Row], kind: str, apis: Iterable[object]) -> list[Route]:
        metrics, slow_s = self._runtime.metrics, self._network.limits.slow_request_s
        routes = []
        for row in rows:
            decide = self._guarded(row, handler_of(row, apis))
            if row.key in TOKEN_KEYS:
                decide = TokenDoor(self._runtime.config, row, decide).serve
            handler = handler_for(row, kind, decide, self._quorum, self._applier)
            if row.key in TOKEN_KEYS:  # before a request is forwarded too
                handler = TokenDoor(self._runtime.config, row, handler).serve
            if row.key == _INCREMENTAL_ALTER_CONFIGS:
                handler = LoggersFirst(self._runtime.node_id, handler, self._authorizer).serve
            routes.append(Route(row, decide, metrics, slow_s, handler=handler))
        return routes

    def __repr__(self) -> str:
        return f"<Serving of {self._quorum!r}>"
