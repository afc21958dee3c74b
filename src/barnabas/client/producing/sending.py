"""Bringing batches to their leaders over blocking connections: one request per broker, all at once.

`transmit` talks (without the producer's lock); what the answers mean is `dispatch`.
"""

from __future__ import annotations

from barnabas.client.blocking import BlockingConnection
from barnabas.client.both.awaited import at_once
from barnabas.client.both.transactions import AnyTransactions
from barnabas.client.cluster import Cluster
from barnabas.client.producing.batching import Batch
from barnabas.client.producing.dispatch import Dispatch, Outcome, requests_of
from barnabas.errors import BarnabasError
from barnabas.model import NodeId
from barnabas.wire.schemas.produce import ProduceRequest

__all__ = ["Sender"]


class Sender:
    """`Sender(cluster, dispatch, None).transmit(batches)` -> what became of each."""

    def __init__(self, cluster: Cluster, dispatch: Dispatch, transactions: AnyTransactions | None) -> None:
        self.cluster = cluster
        self.dispatch = dispatch
        self.transactions = transactions

    def __repr__(self) -> str:
        return f"<Sender {self.dispatch!r}>"

    def transmit(self, batches: list[Batch]) -> list[Outcome]:
        """Send each batch to its leader and return its outcome; a failure of the network is an outcome too."""
        outcomes: list[Outcome] = []
        under_way: list[tuple[BlockingConnection, int, list[Batch]]] = []
        by_leader: dict[NodeId, list[Batch]] = {}
        if self.transactions is not None:
            try:
                at_once(self.transactions.add(batch.target for batch in batches))
            except BarnabasError as error:
                return [Outcome(batch, error, left=False) for batch in batches]
        for batch in batches:
            try:
                by_leader.setdefault(self._prepare(batch), []).append(batch)
            except BarnabasError as error:
                outcomes.append(Outcome(batch, error, left=False))
        for leader, theirs in by_leader.items():
            for group in requests_of(theirs):
                try:
                    connection = self.cluster.connection(leader, leads=True)
                except BarnabasError as error:
                    outcomes += [Outcome(batch, error, left=False) for batch in group]
                    continue
                try:
                    ticket = self._post(connection, group)
                except BarnabasError as error:
                    outcomes += [Outcome(batch, error) for batch in group]
                else:
                    under_way.append((connection, ticket, group))
        for connection, ticket, group in under_way:
            outcomes += self._hear(connection, ticket, group)
        return outcomes

    def _prepare(self, batch: Batch) -> NodeId:
        """Encode the batch and find its leader."""
        leader = self.cluster.leader(batch.target.topic, batch.target.partition).id
        dispatch = self.dispatch
        if dispatch.needs_identity(batch):
            asked = dispatch.identity_request()
            dispatch.take_identity(self.cluster.any().request(asked, timeout=dispatch.request_timeout))
        dispatch.encode(batch)
        return leader

    def _post(self, connection: BlockingConnection, batches: list[Batch]) -> int:
        ids = {topic: self.cluster.topic(topic).id for topic in {batch.target.topic for batch in batches}}
        request, version = self.dispatch.request(batches, ids, connection.version_of(ProduceRequest))
        timeout = self.dispatch.request_timeout
        return connection.post(request, version, silent=self.dispatch.acks == 0, timeout=timeout)

    def _hear(self, connection: BlockingConnection, ticket: int, batches: list[Batch]) -> list[Outcome]:
        if self.dispatch.acks == 0:
            return [Outcome(batch, None) for batch in batches]
        try:
            response = connection.collect(ticket, self.dispatch.request_timeout + 5.0)
        except BarnabasError as error:
            return [Outcome(batch, error) for batch in batches]
        return self.dispatch.outcomes(response, batches, self.cluster.topic_name)
