"""The broker: what a node does with the partitions it hosts.

Nothing in this package waits, reads a clock or knows a socket.  A request comes in with its time of arrival; an
answer goes out, or a `Waiting` that a later call completes.  A produced batch passes through the whole package:

1. `produce` checks the request as a whole, `validation` checks the batch, `partition` appends it to its log.
   Nothing is written yet, and nobody has seen it.
2. `Broker.end_turn` (replicas) writes what all requests of this loop step appended, one gathered write per log.
3. The log's *acknowledged end* moves: at once if acks may come from the page cache, otherwise when the sync that
   `end_turn` handed out comes back through `Broker.synced`.
4. The high watermark moves up to the least acknowledged end of the in-sync replicas.  Now, and only now,
   producers get their answers, and parked fetches wake and read.

So nobody ever sees a record, or its acknowledgement, before the record is where the topic's settings require
it.

Reading order: context, waiting, partition, validation, produce, sessions, fetch, list_offsets, epochs,
producer_ids, delete_records, replicas.
"""
