"""Replication mutants that a reader overlooks: one condition, one offset, one forgotten fact.

A seed within 40 found each of them; if the seed has moved since, `guard` names the test that finds the bug.
"""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["SUBTLE"]

SUBTLE: tuple[Mutant, ...] = (
    mutant(
        "unwritten records are acknowledged",
        "requests whose records found no room on the disk are answered with success",
        "broker.replicas.acknowledgements AcknowledgementQueue.refuse_unwritten",
        "acknowledgement.settle(ErrorCode.KAFKA_STORAGE_ERROR)",
        "acknowledgement.settle(ErrorCode.NONE)",
        15,
    ),
    mutant(
        "refused records stay known",
        "what found no room on the disk stays in the dedupe state",
        "log.truncation roll_back_unwritten",
        "if producers:",
        "if False:",
        guard="tests/log/test_log_full_disk.py, tests/broker/test_disk_space.py",
    ),
    mutant(
        "committed with too few",
        "the high watermark moves though the in-sync set is too small",
        "broker.replicas.partition Partition.advance",
        "if high_watermark > self.high_watermark and leading.enough_in_sync:",
        "if high_watermark > self.high_watermark:",
        5,
    ),
    mutant(
        "followers count one too many",
        "a fetch from an offset counts as holding it",
        "broker.replicas.replica_progress ReplicaProgress.fetched",
        "self.log_end = offset",
        "self.log_end = offset + 1",
        1,
    ),
    mutant(
        "the leader's epoch start is forgotten",
        "a new leader's epoch starts at its high watermark",
        "broker.replicas.partition Partition.lead",
        "self.leading.epoch_start = self.log.log_end_offset",
        "self.leading.epoch_start = self.log.high_watermark",
        2,
    ),
    mutant(
        "a position beyond the leader's is kept",
        "a follower whose end the leader does not have continues from there",
        "broker.replicas.following.fetcher Follower._begin_at",
        "if timestamp == _LATEST and row.offset < before:",
        "if False:",
        9,
    ),
    mutant(
        "an old session goes on",
        "after a lost connection the fetch session continues as if nothing was missed",
        "broker.replicas.following.fetcher Follower.failed",
        "self.session_epoch = 0",
        "pass",
        7,
    ),
    mutant(
        "an epoch ends where the next but one starts",
        "the end of an epoch is one epoch too far",
        "log.epochs EpochCache.end_offset_for",
        "return self.epochs[row - 1], self.starts[row]",
        "return self.epochs[row - 1], self.starts[min(row + 1, len(self.starts) - 1)]",
        37,
    ),
    mutant(
        "an epoch that begins at the cut stays",
        "the epoch that begins where a log is cut stays known",
        "log.epochs EpochCache.truncate_from_end",
        "bisect_left(self.starts, end)",
        "bisect_right(self.starts, end)",
        1,
    ),
    mutant(
        "an unclean shutdown stays eligible",
        "a broker that lost what it had not synced stays eligible",
        "controller.decisions.partitions _wanted_elr",
        "broker != unclean_shutdown and ",
        "",
        230,
    ),
    mutant(
        "the partition epoch stays",
        "a change of a partition leaves its epoch as it was",
        "controller.replay partition_after",
        "partition_epoch=before.partition_epoch + 1",
        "partition_epoch=before.partition_epoch",
        1,
    ),
    mutant(
        "a follower starts where it is told",
        "a follower moves its log start beyond its high watermark",
        "broker.replicas.following.followed Followed.advanced",
        "if log.log_start_offset < self.start <= known:",
        "if log.log_start_offset < self.start <= log.log_end_offset:",
        32,
    ),
)
