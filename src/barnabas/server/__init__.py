"""The shell around the cores: sockets, timers, threads, start and stop.  It drives; it decides nothing.

A request comes in as follows: `listener` accepts the connection, `connection` cuts frames out of the bytes,
`requests` finds the row in the one table (`dispatch`), and a handler (`handlers_*`) asks a core.  The answer
takes its place in the connection's queue.  At the end of the loop step (`turn`) the node writes everything
that was appended, reports everything that became true, and sends all answers of a connection at once
(`outlet`). `process` starts and stops a node.  Import this package's modules, not the package.
"""
