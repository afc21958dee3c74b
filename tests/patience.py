"""How long a test waits for what will happen: generous, for on a busy machine it takes its time.

Tests wait for events; only one that fails waits to the end.
"""

from __future__ import annotations

__all__ = ["PATIENCE_S"]

PATIENCE_S = 90.0
