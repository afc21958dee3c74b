"""Bytes to typed messages and back: the protocol of Apache Kafka 4.4.0.

Read `message` first (how a message is declared and compiled), then `frame` (what stands around one),
`records` (batches) and `registry` (which API is where).  The other modules are declarations, one family
of APIs each, loaded at their first use.  Nothing here knows sockets, files, time or asyncio.
"""
