"""Talking Kafka from Python: what the command line, the pipeline, the console and other nodes use.

Read in this order.  `connection` is one connection as a machine without sockets: messages in, bytes out,
and back.  `blocking` and `aio` put it on a socket, with deadlines and errors that say what to do.
`metadata` is what is known of a cluster and when to ask again; `cluster` asks.  On top of it stand `producer` and
`transactional` (with `producing`, their machines without threads), `fetching` and `consumer` (with its machines,
`consuming`, and with `membership` and `assignment` for groups) and `admin`.

Nothing here knows how a node is built: it talks to ours and to Apache Kafka alike.
"""

from __future__ import annotations
