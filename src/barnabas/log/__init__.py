"""One partition's records on disk, in Apache Kafka's file formats.

A log is a row of segments, each named by the offset of its first record: `NNN.log` holds record batches as
they came over the wire, `.index` and `.timeindex` are sparse tables into it, `.txnindex` lists aborted
transactions, `.snapshot` is what was known of producers where the segment began.  Only the last segment
grows.

Four offsets say how far things went, each with its invariant:

    log start <= durable end <= written end <= log end

Appending moves the log end and costs no system call; `write()` gathers everything appended in one step of
the loop into one `writev` and moves the written end; `begin_sync()` makes a job that covers what was
written before it began, and `finish_sync()` moves the durable end.  What a client is told is safe is the
durable end (or, with Kafka's own `flush.messages`, the written end): `Log.acknowledged_end_offset`.

Reading order: in `segments/` segment and index (the files); `state` and `log` (one partition), `recovery`
(opening one, trusting nothing after the last good CRC), `epochs` and `producers` (what is remembered besides
records), `truncation`, `retention`, `reading`, `searching`; `cleaning/` (compaction); in `storage/`
log_directory and log_directories (all logs of a disk, of a node), snapshot (the metadata log's), disk.
"""
