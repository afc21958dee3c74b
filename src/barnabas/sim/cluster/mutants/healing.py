"""Mutants of how a damaged replica is healed: who hears of it, who leads, what is fetched again."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["HEALING"]

_TELLING: tuple[Mutant, ...] = (
    mutant(
        "heartbeats are silent about it",
        "a broker does not tell the controller which replicas lack records",
        "server.node.broker_part BrokerPart._disks",
        "for partition in self.broker.lacking",
        "for partition in ()",
        8,
    ),
    mutant(
        "a kill is kept to itself",
        "a broker that was killed does not say so in its heartbeats",
        "server.node.broker_part BrokerPart.__init__",
        "unclean_stop=not all(directory.was_clean for directory in home.logs.directories),",
        "unclean_stop=False,",
        2,
    ),
    mutant(
        "a stop in order hides a kill",
        "a replica that was killed, and stopped in order before it was compared with others, counts as whole",
        "server.node.broker_part BrokerPart.stops_clean",
        "return not (self.lifecycle.settings.unclean_stop and self.broker.claims_unproven())",
        "return True",
        28,
    ),
    mutant(
        "once incomplete, always incomplete",
        "the controller keeps what earlier heartbeats said of incomplete replicas",
        "controller.decisions.brokers heartbeat",
        "incomplete=frozenset((row.topic_id, row.partition_index) for row in request.incomplete),",
        "incomplete=frozenset((row.topic_id, row.partition_index) for row in request.incomplete)"
        " | (frozenset() if old is None else old.incomplete),",
        8,
    ),
)

_FETCHING: tuple[Mutant, ...] = (
    mutant(
        "fetched again from behind the damage",
        "a damaged replica is cut where its damage ends",
        "broker.replicas.reconcile Reconciler._begin_anew",
        "start = max(gone[0].start, log.log_start_offset)",
        "start = max(gone[0].end, log.log_start_offset)",
        8,
    ),
    mutant(
        "cut behind what is lost",
        "a log is cut behind the batch that follows one which is lost and a row of the index names",
        "log.segments.segment Segment.place_of_cut",
        "if beyond and at == begin > 0:",
        "if False:",
        263,
    ),
    mutant(
        "damage is not fetched again",
        "a damaged replica goes on with what it can read",
        "broker.replicas.reconcile Reconciler._begin_anew",
        "if not log.damage or partition.offline:",
        "if True:",
        8,
    ),
)

HEALING: tuple[Mutant, ...] = (*_TELLING, *_FETCHING)
