"""The broker: what a node does with the partitions it hosts.

Nothing in this package waits, reads a clock or knows a socket.  A request comes in with its time of arrival; an
answer goes out, or a `Waiting` that a later call completes.  A produced batch passes through the whole package:

1. `requests/produce` appends a plain batch to its log; what is not plain, `requests/append` and `validation` check
   first.  Nothing is written yet, and nobody has seen it.
2. `Broker.end_loop_step` (`replicas/broker`) writes what all requests of this loop step appended, one gathered
   write per log.
3. The log's *acknowledged end* moves: at once if acks may come from the page cache, otherwise when the sync that
   `end_loop_step` handed out comes back through `Broker.synced`.
4. The high watermark moves up to the least acknowledged end of the in-sync replicas.  Now, and only now,
   producers get their answers, and parked fetches wake and read.

So nobody ever sees a record, or its acknowledgement, before the record is where the topic's settings require
it.

Reading order: `ports`, `purgatory`; in `replicas/` partition, leader_state, isr, fetcher, hosted_partitions,
reconcile, broker; in `requests/` produce, append, validation, fetch and the others; in `groups/` group,
membership, rebalance, `consumer/`, coordinator.  `requests/` imports `replicas/`, `groups/` both, and nothing
imports back.
"""
