"""The shell around the cores: sockets, timers, threads, start and stop.  It drives; it decides nothing.

A request's way in: `listener` accepts, `connection` cuts frames out of what arrives, `requests` finds the
row in the one table (`dispatch`), a handler (`handlers_*`) asks a core.  The way out: the answer takes its
place in the connection's line, and at the end of the loop's turn (`turn`) everything that was appended is
written, everything that became true is told, and all answers of a connection leave in one send (`outlet`).
`process` puts a node together and takes it apart.  Import this package's modules, not the package.
"""
