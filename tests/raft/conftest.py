"""Lets the tests of this folder import their own harness (`raft_cluster`, `raft_invariants`)."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
