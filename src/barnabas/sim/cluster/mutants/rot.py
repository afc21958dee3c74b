"""Mutants of what notices that a disk lied, and of what is told then; seeds of `sim.cluster.lying` find them."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Mutant, mutant

__all__ = ["ROT"]

_AT_A_START: tuple[Mutant, ...] = (
    mutant(
        "any batch is whole",
        "the CRC of a batch on the disk is not looked at, by nobody",
        "log.segments.scan batches_of",
        "if not check_crc(chunk, at, header):",
        "if False:",
        15,
    ),
    mutant(
        "epochs may fall",
        "a batch of an older epoch than the one before it counts as whole",
        "log.segments.scan misfit",
        "if header.leader_epoch < epoch:",
        "if False:",
        guard="tests/log/test_log_recovery.py::test_an_epoch_that_rose_ends_the_log_where_that_batch_belongs",
    ),
    mutant(
        "an epoch of no leader is believed",
        "records count that claim an epoch which no leader had yet",
        "broker.replicas.reconcile Reconciler._host",
        "if log.latest_epoch > state.leader_epoch:",
        "if False:",
        guard="tests/broker/test_damaged.py::test_a_batch_of_an_epoch_that_no_leader_had_is_damage",
    ),
)

_WHILE_IT_RUNS: tuple[Mutant, ...] = (
    mutant(
        "damage is told to nobody",
        "whoever meets damage notes it and lets nobody know",
        "broker.replicas.hosted_partitions HostedPartitions.damage_found",
        "if error.news or self.lacking.of(partition) is None:",
        "if False:",
        8,
    ),
    mutant(
        "a sync asks for nothing",
        "a sync does not ask whether the last byte is where it was written",
        "log.files.sync SyncJob._run",
        "if self.active is not None and ends_before(",
        "if False and ends_before(",
        7,
    ),
    mutant(
        "what is lost is looked for above the end",
        "an offset above the log's end is damage up there, where no replica can fetch it again",
        "broker.replicas.maintenance.scrubber Part.__init__",
        "self.limit = min(segment.limit, log.written_end_offset)",
        "self.limit = segment.limit",
        guard="tests/broker/test_scrubber.py::"
        "test_an_offset_that_rose_above_the_end_of_the_log_is_damage_where_its_batch_lies",
    ),
    mutant(
        "written on behind a cut",
        "records that were cut off the newest file are not missed once others were written in their place",
        "log.reading damage_of",
        "found = _overwritten(log, end) if segment is log.active else []",
        "found = []",
        7,
    ),
    mutant(
        "a file that was cut fails its disk",
        "a segment that ends early takes all partitions of its directory offline",
        "broker.replicas.hosted_partitions HostedPartitions.storage_failed",
        "if isinstance(error, LostFileError) and",
        "if isinstance(error, LostFileError) and not isinstance(error, ShortFileError) and",
        guard="tests/broker/test_damaged.py::test_the_only_replica_goes_on_where_its_newest_file_was_cut",
    ),
)

ROT: tuple[Mutant, ...] = (*_AT_A_START, *_WHILE_IT_RUNS)
