"""Planted replication bugs, which the simulated cluster must find.

Each changes a few characters in the source of one function (as in `sim.planted`). `seed` is the first seed,
counted from 1, that raises an alarm; 0: no seed tried so far.  `guard` then names the test that finds the
bug, or the guard that makes it harmless.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.sim.cluster.mutants.guards import GUARDS
from barnabas.sim.cluster.mutants.mutant import Bug
from barnabas.sim.cluster.mutants.mutant import planted_bug as _bug
from barnabas.sim.cluster.mutants.subtle import SUBTLE
from barnabas.sim.cluster.seed_run import Report, run_seed
from barnabas.sim.quorum.mutants.mutants import planted

__all__ = ["BUGS", "SEARCHED", "Bug", "find", "planted"]

SEARCHED = 300
"""Seeds that a search looks at before it gives up."""


_FOLLOWING: tuple[Bug, ...] = (
    _bug(
        "cut at the high watermark",
        "a follower begins by cutting its log to its own high watermark (KIP-101)",
        "broker.replicas.fetcher Followers.follow",
        "partition.stop_following()\n",
        "partition.stop_following(); partition.log.truncate_to(partition.log.high_watermark, Now(0.0, 0))\n",
        2,
    ),
    _bug(
        "the leader's end alone",
        "the point of divergence comes from the leader's answer alone, not from both (KIP-279)",
        "broker.replicas.fetcher Follower._cut_back",
        "min(end if here < 0 else here, end, log.log_end_offset)",
        "min(end, log.log_end_offset)",
        guard="tests/broker/test_follower.py (the short tail)",
    ),
    _bug(
        "epochs are not compared",
        "a leader that never had a follower's last epoch looks at the offset only (KIP-279)",
        "broker.requests.fetch _Reader._diverging",
        "epoch < position.last_fetched_epoch or end < position.offset",
        "end < position.offset",
        guard="tests/broker/test_follower.py (the short tail)",
    ),
    _bug(
        "divergence is overlooked",
        "a former leader keeps its tail: the leader takes every log for a prefix of its own",
        "broker.requests.fetch _Reader._diverging",
        "if position.last_fetched_epoch < 0:",
        "if True:",
        2,
    ),
    _bug(
        "a diverging follower counts",
        "the fetch of a follower whose log went another way counts as holding everything below",
        "broker.requests.fetch _Reader.record_follower",
        "if self._diverging(partition, position) is not None:",
        "if False:",
        38,
    ),
    _bug(
        "follower acknowledges before its sync",
        "a follower asks for more before the records that it got are on its disk",
        "broker.replicas.fetcher Follower.next_request",
        "if self._unsafe:",
        "if False:",
        1,
    ),
    _bug(
        "follower's high watermark is its end",
        "a follower takes the end of its log for the high watermark",
        "broker.replicas.fetcher Follower._take",
        "followed.mark = data.high_watermark",
        "followed.mark = followed.partition.log.log_end_offset",
        8,
    ),
    _bug(
        "late answers count",
        "the answer to a fetch of an earlier epoch or position counts as a present one",
        "broker.replicas.fetcher Follower._is_current",
        "return followed.sent == here and partition.followed is followed and not partition.offline",
        "return not partition.offline",
        guard="a connection is dropped when the epoch changes, and offsets are compared",
    ),
    _bug(
        "any epoch is appended",
        "a follower takes batches of an epoch above its own and below its last",
        "log.replicating take_batches",
        "if epoch < latest_epoch:",
        "if False:",
        guard="a fetch from another history is answered with where it ends",
    ),
    _bug(
        "offsets are not compared",
        "a follower appends whatever comes, wherever its log ends",
        "log.replicating take_batches",
        "if header.base_offset < log_end or header.last_offset < header.base_offset:",
        "if False:",
        guard="tests/log/test_log_appends.py; a late answer is not taken at all",
    ),
    _bug(
        "the dedupe state is not replicated",
        "a follower does not remember the sequences that it copies: a new leader knows none",
        "log.log Log._append_replica",
        "if header.producer_id >= 0:",
        "if False:",
        2,
    ),
    _bug(
        "a cut leaves the dedupe state",
        "what was cut off is still taken for written when it is sent again",
        "log.truncation truncate_to",
        "for _ in replay_producers(log):",
        "for _ in ():",
        4,
    ),
    _bug(
        "a cut leaves the epochs",
        "the epochs of what was cut off stay known",
        "log.truncation truncate_to",
        "log.epochs.truncate_from_end(end)",
        "pass",
        guard="a follower cuts them once more",
    ),
)

_LEADING: tuple[Bug, ...] = (
    _bug(
        "written counts as durable",
        "the leader counts its own log up to what is written, not what is synced",
        "broker.replicas.partition Partition.advance",
        "here = log.acknowledged_end_offset",
        "here = log.written_end_offset",
        guard="followers are only given what is durable, and one replica alone commits nothing",
    ),
    _bug(
        "the leader's end is the high watermark",
        "the high watermark does not wait for the in-sync replicas",
        "broker.replicas.partition Partition.advance",
        "here if not self.remote else self._least_end(here, now)",
        "here",
        1,
    ),
    _bug(
        "acknowledged before the in-sync replicas",
        "acks=all is answered when the leader itself has synced",
        "broker.replicas.partition Partition.advance",
        "if acknowledgement.end <= mark:",
        "if acknowledgement.end <= here:",
        3,
    ),
    _bug(
        "a majority is enough",
        "the high watermark is what a majority holds, whatever the in-sync set",
        "broker.replicas.partition Partition._least_end",
        "return end",
        "ends = sorted([here, *(r.log_end for r in self.remote.values())]); return ends[len(ends) // 2]",
        1,
    ),
    _bug(
        "slow replicas do not count",
        "an in-sync replica that has fallen behind does not hold the high watermark back",
        "broker.replicas.partition Partition._least_end",
        "node in self.isr",
        "(node in self.isr and replica.caught_up(here, now, 0.2))",
        2,
    ),
    _bug(
        "a shrink counts before it is agreed",
        "a replica that is to leave the in-sync set does not count while the controller is asked",
        "broker.replicas.partition Partition._least_end",
        "node in self.isr",
        "node in (self.proposed or self.isr)",
        2,
    ),
    _bug(
        "an expansion does not count before it is agreed",
        "a replica that is to join the in-sync set does not hold the high watermark back yet",
        "broker.replicas.partition Partition._least_end",
        "node in proposed",
        "False",
        guard="a replica that has caught up counts anyway",
    ),
    _bug(
        "min.insync.replicas is ignored",
        "there are always enough replicas in sync",
        "broker.replicas.partition Partition._count_in_sync",
        "len(self.isr) >= min(self.config.min_insync_replicas, len(self.replicas) or 1)",
        "True",
        3,
    ),
    _bug(
        "joins before this epoch",
        "a follower joins the in-sync set before it has reached the leader's epoch",
        "broker.replicas.partition Partition.may_join",
        "and replica.log_end >= self.epoch_start",
        "",
        6,
    ),
    _bug(
        "joins wherever it is",
        "a follower joins the in-sync set as soon as it fetches",
        "broker.replicas.partition Partition.may_join",
        "and replica.log_end >= self.high_watermark",
        "and True or True",
        1,
    ),
    _bug(
        "a new leader's end is committed",
        "a new leader takes the end of its log for the high watermark",
        "broker.replicas.partition Partition.lead",
        "self.high_watermark = self.log.high_watermark",
        "self.high_watermark = self.log.high_watermark = self.log.log_end_offset",
        4,
    ),
    _bug(
        "what was reported to an earlier leader counts",
        "a leader of a new epoch keeps what followers told it in an earlier one",
        "broker.replicas.partition Partition.lead",
        "known = {} if fresh else self.remote",
        "known = self.remote",
        guard="whoever ceases to lead forgets it",
    ),
    _bug(
        "losing the leadership answers yes",
        "requests that wait when the leadership moves are answered with success",
        "broker.replicas.partition Partition.dismiss",
        "acknowledgement.settle(error)",
        "acknowledgement.settle(ErrorCode.NONE)",
        3,
    ),
    _bug(
        "a timeout answers yes",
        "a produce request whose time is up is answered with success",
        "broker.requests.produce ProduceWaiting.expired",
        "result.settle(ErrorCode.REQUEST_TIMED_OUT)",
        "result.settle(ErrorCode.NONE)",
        3,
    ),
    _bug(
        "consumers read to the end",
        "a consumer reads what is not committed yet",
        "broker.requests.fetch _Reader._read_one",
        "end = one.stable if self.committed else one.high_watermark",
        "end = log.acknowledged_end_offset",
        1,
    ),
    _bug(
        "ends go back after an election",
        "a new leader lists offsets before its high watermark has reached its epoch (KIP-207)",
        "broker.replicas.partition Partition.offsets_available",
        "return self.high_watermark >= self.epoch_start",
        "return True",
        3,
    ),
    _bug(
        "a former life counts",
        "a fetch with a follower's previous broker epoch is accepted (KIP-903)",
        "broker.replicas.partition Partition.fetched_by",
        "-1 < epoch < replica.broker_epoch",
        "False",
        guard="tests/broker/test_follower.py (an earlier life)",
    ),
    _bug(
        "any leader epoch will do",
        "requests of another leader epoch are answered",
        "broker.replicas.partition Partition.unavailable",
        "if epoch != NO_EPOCH and epoch != self.leader_epoch:",
        "if False:",
        guard="a fetch compares the epoch where it reads, and where histories part",
    ),
    _bug(
        "repeated batches are not recognized",
        "a batch that is there already is taken for a new one",
        "log.producers ProducerStates.check",
        "if first == sequence and end == last:",
        "if False:",
        2,
    ),
    _bug(
        "sequences are not compared",
        "a batch is appended whatever its sequence number, unless it is there already",
        "log.producers ProducerStates._check_sequence",
        "if sequence != expected:",
        "if False:",
        guard="tests/log/test_log_producers.py",
    ),
    _bug(
        "one batch is remembered",
        "of five batches in flight only the last is known again",
        "log.producers ProducerStates.append",
        "if len(batches) == BATCHES_REMEMBERED:",
        "if batches:",
        2,
    ),
    _bug(
        "producers forgotten at a start",
        "a log that is opened does not take its producers from the snapshot",
        "log.producers ProducerStates.replace",
        "for row in rows:",
        "for row in ():",
        3,
    ),
)

_DECIDING: tuple[Bug, ...] = (
    _bug(
        "anybody is elected",
        "the controller elects a live replica that is not in sync",
        "controller.decisions.partitions _elect",
        "holds = broker in isr or (not isr and broker in elr)",
        "holds = True",
        4,
    ),
    _bug(
        "eligible whoever leaves",
        "a replica that leaves the in-sync set stays eligible though there are enough without it (KIP-966)",
        "controller.decisions.partitions _wanted_elr",
        "len(isr) >= min(rules.min_isr, len(replicas))",
        "False",
        2,
    ),
    _bug(
        "eligible beside a living set",
        "an eligible replica is elected while others are in sync (KIP-966)",
        "controller.decisions.partitions _elect",
        "(not isr and broker in elr)",
        "broker in elr",
        12,
    ),
    _bug(
        "every replica is eligible",
        "when the in-sync set gets too small every replica becomes eligible (KIP-966)",
        "controller.decisions.partitions _wanted_elr",
        "{*state.elr, *state.isr}",
        "set(replicas)",
        2,
    ),
    _bug(
        "a lost disk stays eligible",
        "a broker that comes back without a clean stop counts as holding all that it held (KIP-966)",
        "controller.decisions.brokers register_broker",
        "clean = not elr or request.previous_broker_epoch == known.epoch",
        "clean = True",
        7,
    ),
    _bug(
        "a new life stays in sync",
        "a broker that registers again stays in the in-sync sets of its previous epoch",
        "controller.decisions.brokers register_broker",
        "if known is not None and not same_life:",
        "if False:",
        1,
    ),
    _bug(
        "the leader epoch stays",
        "another leader leads in the same epoch",
        "controller.replay partition_after",
        "before.leader_epoch + 1",
        "before.leader_epoch + (change.leader < 0)",
        2,
    ),
    _bug(
        "old views are agreed to",
        "AlterPartition is not compared with the leader epoch and the partition epoch",
        "controller.decisions.isr _check_epochs",
        "if data.leader_epoch > state.leader_epoch",
        "return\n    if data.leader_epoch > state.leader_epoch",
        guard="the sender must lead, and the leader sees the metadata first",
    ),
    _bug(
        "an old partition epoch is agreed to",
        "AlterPartition is not compared with the partition epoch",
        "controller.decisions.isr _check_epochs",
        "if data.partition_epoch < state.partition_epoch:",
        "if False:",
        guard="the leader epoch and the broker epochs are compared",
    ),
    _bug(
        "the fenced join",
        "a fenced or restarted broker may join the in-sync set (KIP-903)",
        "controller.decisions.isr _check_eligible",
        "known is None or not known.active or epoch not in (_ANY_EPOCH, known.epoch)",
        "known is None",
        guard="the leader looks at who is alive, too",
    ),
    _bug(
        "a fenced broker keeps its leaderships",
        "fencing a broker changes no partition",
        "controller.decisions.brokers fence",
        "[*changes, change]",
        "[change]",
        3,
    ),
    _bug(
        "the fenced stay in sync",
        "a fenced broker loses its leaderships and stays in the in-sync sets",
        "controller.decisions.partitions remove_broker",
        "isr=tuple(member for member in state.isr if member != broker)",
        "isr=state.isr",
        2,
    ),
    _bug(
        "unfenced before it knows",
        "a broker is unfenced before it has read of its registration",
        "controller.decisions.brokers heartbeat",
        "caught_up = offset >= contact.registered_at",
        "caught_up = True",
        guard="tests/controller/test_brokers.py",
    ),
    _bug(
        "any broker epoch will do",
        "requests with a broker's previous epoch are accepted",
        "controller.decisions.brokers known_broker",
        "if broker is None or broker.epoch != epoch:",
        "if broker is None:",
        guard="tests/controller/test_brokers.py",
    ),
)

_KEEPING: tuple[Bug, ...] = (
    _bug(
        "sync that is none",
        "the log's sync returns without syncing",
        "log.storage.sync SyncJob._run",
        "file.sync()",
        "pass",
        2,
    ),
    _bug(
        "no CRC at recovery",
        "opening a log takes torn batches for good ones",
        "log.segments.scan batches_of",
        "if not check_crc(chunk, at, header):",
        "if False:",
        guard="tests/log/test_log_recovery.py",
    ),
)

BUGS: tuple[Bug, ...] = (*_FOLLOWING, *_LEADING, *_DECIDING, *_KEEPING, *SUBTLE, *GUARDS)


def find(bug: Bug, seeds: Iterable[int] = range(1, SEARCHED + 1)) -> Report | None:
    """The report of the first of these seeds that raises an alarm with this bug."""
    with planted(bug.change):
        for seed in seeds:
            report = run_seed(seed)
            if not report.ok:
                return report
    return None
