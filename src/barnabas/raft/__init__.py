"""Consensus as a function: the quorum that keeps the cluster's metadata (KRaft).

A handful of controllers agree on one log.  One of them leads an *epoch*; only it appends; what a majority
of the voters has on disk is *committed* and never lost.  This room is that agreement and nothing else: it
knows no sockets, no files, no clock.  A message and the time go in, effects come out (`node`), and `order`
carries them out in the one order that is safe.

**The log.**  Entries stand at offsets, in batches, each batch of one epoch.  The core never sees the
records, only where epochs begin, how far the log is synced, and the few entries that concern it
(`entries`, `journal`).

**Election.**  Who misses the leader first asks everybody "would you vote for me?" (*prospective*); only
with a majority in sight does it open a new epoch and stand (*candidate*).  A vote goes to whoever's log
is not behind one's own, once per epoch, and is on disk before it is given (`election`).

**Replication.**  Followers fetch.  A fetch from offset 17 says "everything before 17 is on my disk", so it
is the acknowledgement too.  Logs that disagree are cut back to where they agree.  The *high watermark* is
the offset that a majority has reached on disk, and passes only with an entry of the leader's own epoch
(`leadership`, `replication`, `following`).

**Reconfiguration.**  The voter set is itself an entry of the log, in force as soon as it is appended, and
taken back when the entry is.  It changes by one member at a time, so that any two successive majorities
share somebody (`voters`, `reconfigure`, after KIP-853).  A voter is a node *and its disk*: a replaced disk
is another replica and must be let in anew.

**What we leave out.**  No leases, no reads through the leader, no joint consensus: a target set (KIP-642)
is reached by a plan of single changes.  Nothing here defends against nodes that lie.
"""

from __future__ import annotations

from barnabas.raft.core import IllegalTransition
from barnabas.raft.describe import Description, ReplicaRow
from barnabas.raft.journal import Journal
from barnabas.raft.node import RaftNode, RaftStatistics
from barnabas.raft.order import Order, Outside, Store
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import VersionRange, Voter, VoterSet

__all__ = [
    "Description",
    "IllegalTransition",
    "Journal",
    "Order",
    "Outside",
    "RaftConfig",
    "RaftNode",
    "RaftStatistics",
    "ReplicaRow",
    "Store",
    "VersionRange",
    "Voter",
    "VoterSet",
]
