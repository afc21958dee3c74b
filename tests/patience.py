"""How long a test waits for what will happen: generous, for on a busy machine it takes its time.

Tests wait for events; only one that fails waits to the end.
"""

from __future__ import annotations

__all__ = ["LATE_STARTS", "PATIENCE_S"]

PATIENCE_S = 90.0
LATE_STARTS = 30
"""How often Spark may give up on a Python worker after its own 10 s, before a test fails."""
