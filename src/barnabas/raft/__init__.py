"""Consensus as a function: the quorum that keeps the cluster's metadata (KRaft).

A few controllers agree on one log.  One of them leads an *epoch*, and only the leader appends.  Whatever a
majority of the voters has on disk is *committed* and never lost.  This package does that and nothing else: it
knows no sockets, no files, no clock.  A message and the time go in, effects come out (`node`), and `driver`
carries them out in the one safe sequence.

**The log.** Entries have offsets and come in batches; each batch belongs to one epoch.  The core never sees
the records.  It sees only where epochs begin, how far the log is synced, and the few entries that concern it
(`entries`, `log_view`).

**Election.** A node that misses the leader first asks everybody "would you vote for me?"  (*prospective*).
Only if a majority would does it open a new epoch and stand (*candidate*). A voter votes once per epoch, only
for a candidate whose log is not older than its own, and writes its vote to disk before it grants it
(`election`).

**Replication.** Followers fetch.  A fetch from offset 17 says "everything before 17 is on my disk", so it is
the acknowledgement too.  Logs that disagree are truncated to where they agree.  The *high watermark* is the
offset that a majority has reached on disk.  It advances only with an entry of the leader's own epoch
(`leadership`, `replication`, `following`).

**Reconfiguration.** The voter set is itself an entry of the log.  It is in force as soon as it is appended,
and no longer when the entry is truncated.  It changes by one member at a time, so that any two successive
majorities share a member (`voters`, `membership`, after KIP-853). A voter is a node *and its disk*: a
replaced disk is another replica, and must be added again.

**What we leave out.**  No leases, no reads through the leader, no joint consensus: a plan of single changes
reaches a target set (KIP-642).  Nothing here defends against nodes that lie.
"""

from __future__ import annotations
