"""Bugs in transactions, which the transactional seeds must find (`kernel.mutants`)."""

from __future__ import annotations

from barnabas.sim.kernel.mutants import Change, Mutant, mutant

__all__ = ["TRANSACTIONAL"]

_COORDINATOR: tuple[Mutant, ...] = (
    mutant(
        "a decision counts before it is committed",
        "what a coordinator writes takes effect when it is appended",
        "broker.transactions.state_log StateLog.write",
        "written, timeout_s=self._timeout_s)",
        "lambda error: None, timeout_s=self._timeout_s); written(ErrorCode.NONE)",
        seed=2,
    ),
    mutant(
        "a loaded commit is an abort",
        "a coordinator that loads a decision to commit has the partitions abort",
        "broker.transactions.coordinator Transactions._loaded",
        "self._send_markers(owned, held, now)",
        "held.current = held.current._replace(state=State.PREPARE_ABORT); self._send_markers(owned, held, now)",
        seed=1,
    ),
    mutant(
        "the first state of an id counts",
        "a coordinator that loads its partition keeps the first record of an id, not the last",
        "broker.transactions.state_log StateLog._load_some",
        "owned.ids[transactional_id] = Coordinated(transactional_id, state)",
        "owned.ids.setdefault(transactional_id, Coordinated(transactional_id, state))",
        seed=1,
    ),
    mutant(
        "a decision is forgotten at a failover",
        "a coordinator that loads a decision sends no markers",
        "broker.transactions.coordinator Transactions._loaded",
        "if held.current.state.ending:",
        "if False:",
        seed=1,
    ),
    mutant(
        "a failed request for markers is not repeated",
        "partitions whose leader could not be asked get no marker from this coordinator",
        "broker.transactions.markers TransactionMarkers.failed",
        "self._later.extend(",
        "list(",
        seed=3,
    ),
    mutant(
        "a refused marker is not repeated",
        "partitions whose leader refused a marker get none from this coordinator",
        "broker.transactions.markers TransactionMarkers.answered",
        "self._later.append((now.mono + RETRY_S, item))",
        "pass",
        seed=14,
    ),
    mutant(
        "one marker completes a transaction",
        "an end is complete when the first partition has its marker",
        "broker.transactions.markers TransactionMarkers._written",
        "if not ending.left:",
        "if True:",
        seed=2,
    ),
    mutant(
        "markers for the last partition only",
        "a partition that joins a transaction takes the place of those before it",
        "broker.transactions.state Transaction.with_partitions",
        "partitions=self.partitions | partitions,",
        "partitions=partitions,",
        seed=1,
    ),
    Mutant(
        "a new producer leaves the old transaction open",
        "InitProducerId gives out another epoch and does not abort what is open",
        "broker.transactions.initializing",
        "initialize",
        "if not current.state.idle:",
        "if False:",
        also=(
            Change(
                "broker.transactions.state",
                "Transaction._step",
                "assert self.state in _BEFORE[state]",
                "assert True",
            ),
        ),
        seed=1,
    ),
    Mutant(
        "time aborts what is decided",
        "a transaction whose time is over is aborted although it was decided to commit it",
        "broker.transactions.coordinator",
        "Transactions._look_at",
        "if held.pending is not None or not self.log.owns(owned):\n        return\n"
        "    if current.state is State.ONGOING:",
        "decided = current.state is State.PREPARE_COMMIT\n"
        "    if (held.pending is not None and not decided) or not self.log.owns(owned):\n        return\n"
        "    if current.state is State.ONGOING or decided:",
        also=(
            Change(
                "broker.transactions.ending",
                "abort_open",
                "assert held.pending is None and current.state is State.ONGOING",
                "pass",
            ),
            Change(
                "broker.transactions.state",
                "Transaction._step",
                "assert self.state in _BEFORE[state]",
                "assert True",
            ),
        ),
        seed=37,
    ),
    mutant(
        "zombies may end transactions",
        "EndTxn of an earlier epoch ends the transaction of the present producer (before KIP-890)",
        "broker.transactions.ending _end_in_its_epoch",
        "if known_epoch != epoch:",
        "if False:",
        seed=24,
    ),
    mutant(
        "the epoch stays at an end",
        "the end of a transaction does not raise the epoch (KIP-890)",
        "broker.transactions.state Transaction.decided",
        "epoch, last_epoch = min(self.epoch + 1, LAST_EPOCH), self.epoch",
        "last_epoch = self.epoch",
        seed=1,
    ),
    mutant(
        "the end that is complete is written once",
        "when the record of a complete end cannot be written it is not written again",
        "broker.transactions.coordinator Transactions._complete",
        "elif self.log.owns(owned):",
        "elif False:",
        guard="tests/broker/test_transactions.py::test_a_complete_end_is_written_until_it_is_written",
    ),
    mutant(
        "partitions join in memory",
        "a partition is in a transaction before the record that says so is committed",
        "broker.transactions.coordinator Transactions.add_partitions",
        "self._change(owned, held, following, now, done)",
        "held.current = following; done(ErrorCode.NONE)",
        seed=2,
    ),
)

_PARTITIONS: tuple[Mutant, ...] = (
    mutant(
        "a marker counts before it is committed",
        "WriteTxnMarkers is answered when the leader has appended the marker",
        "broker.requests.txn_markers append_marker",
        "call_when_safe(broker, partition, end, now, done, timeout_s=broker.request_timeout_s)",
        "done(ErrorCode.NONE)",
        seed=19,
    ),
    Mutant(
        "nobody asks the coordinator",
        "the first batch of a transaction is appended unverified (before KIP-890)",
        "broker.txn_verification",
        "Verifications.needed",
        "if not (self.enabled or add) or",
        "if not add or",
        also=(
            Change("log.producers.producers", "ProducerStates.check", "if verify and (", "if False and ("),
        ),
        seed=3,
    ),
    mutant(
        "an old coordinator's marker counts",
        "a marker of an older coordinator epoch is appended",
        "log.producers.producers ProducerStates.check_marker",
        "if coordinator_epoch < state.coordinator_epoch:",
        "if False:",
        guard="tests/broker/test_txn_markers.py::test_a_marker_of_an_older_coordinator_or_an_older_epoch_is_refused",
    ),
    mutant(
        "a marker of any epoch counts",
        "a marker that comes late ends a later transaction of its producer",
        "log.producers.producers ProducerStates.check_marker",
        "if not allowed:",
        "if False:",
        seed=1,
    ),
    mutant(
        "stable when the marker is appended",
        "the last stable offset moves when the marker is appended, not when it is committed",
        "log.producers.producers ProducerStates.end_transaction",
        "self.ended.append((first, marker_offset))",
        "pass",
        guard="tests/broker/test_txn_markers.py::test_a_marker_is_answered_when_every_replica_in_sync_holds_it",
    ),
    mutant(
        "everything committed is stable",
        "readers of committed records read up to the high watermark",
        "broker.replicas.partition Partition.last_stable_offset",
        "min(self.log.last_stable_offset, self.high_watermark)",
        "self.high_watermark",
        seed=1,
    ),
    mutant(
        "aborted transactions are forgotten at a start",
        "a log that is opened does not read which transactions were aborted",
        "log.segments.transactions TransactionIndex.load",
        "if not disk.exists(self.path):",
        "if True:",
        seed=3,
    ),
    mutant(
        "open transactions are forgotten at a start",
        "a snapshot of the producers does not say which transactions are open",
        "log.producers.state ProducerState.to_row",
        "self.transaction_start,",
        "-1,",
        seed=12,
    ),
    mutant(
        "aborts are not noted",
        "the marker of an aborted transaction ends it, and readers are not told to leave its records out",
        "log.producers.replay end_transaction",
        "if ended is not None and kind == _ABORT and segment is not None:",
        "if False:",
        seed=1,
    ),
    mutant(
        "positions count at once",
        "the position of a group that is committed in a transaction counts before the transaction ends",
        "broker.groups.txn_offsets TxnOffsets._append",
        "self.offsets.pending.add(partition.index, request.producer_id, group_id, kept)",
        "self.offsets.committed.setdefault(group_id, {}).update(kept)",
        seed=1,
    ),
    mutant(
        "positions of aborted transactions count",
        "a marker makes the positions of its transaction count, whichever it is",
        "broker.groups.offsets GroupOffsets.end_transaction",
        "if commit and kept:",
        "if kept:",
        seed=1,
    ),
    mutant(
        "positions are forgotten at a failover",
        "a coordinator of groups that loads its partition leaves out the positions of open transactions",
        "broker.groups.offsets GroupOffsets.replay",
        "self.pending.add(index, producer_id, group_id, {position: kept})",
        "pass",
        seed=2,
    ),
)

TRANSACTIONAL: tuple[Mutant, ...] = _COORDINATOR + _PARTITIONS
