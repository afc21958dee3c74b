"""The shell around the cores: sockets, timers, threads, start and stop.  It drives; it decides nothing.

A request comes in as follows: `net.listener` accepts the connection, `net.connection` cuts frames out of the
bytes, `net.requests` finds the route of its API (a row of the one table, `api.table`), and the row's handler asks
a core.  The answer takes its place in the connection's line.  At the end of the loop step (`loop.loop_step`) the
node writes everything that was appended, reports everything that became true, and sends all answers of a
connection at once (`net.send_queue`).  `node.process` starts and stops a node, `node.serving` builds what its
listeners serve.  Import this package's modules, not the package.
"""
