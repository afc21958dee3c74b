"""The broker: what a node does with the partitions it hosts.

Nothing in this room waits, reads a clock or knows a socket.  A request comes in with the time at which it
came; out goes an answer, or a `Waiting` that a later call completes.  The life of a produced batch shows
the whole room:

1. `produce` looks at the request as a whole, `validation` at the batch, `partition` appends it to its log.
   Nothing is written yet, nobody has seen it.
2. `Broker.end_turn` (replicas) writes what all requests of this turn appended, one gathered write per log.
3. The log's *acknowledged end* moves: at once where acks may come from the page cache, otherwise when the
   sync that `end_turn` handed out came back through `Broker.synced`.
4. The high watermark moves up to the least acknowledged end of the in-sync replicas.  Now, and only now,
   producers get their answers and parked fetches wake and read.

So nobody ever sees a record, or an acknowledgement of one, that is not where the topic's settings say that
it must be first.

Reading order: context, waiting, partition, validation, produce, sessions, fetch, list_offsets, epochs,
producer_ids, delete_records, replicas.
"""
