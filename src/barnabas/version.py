"""The version of this software: what `--version` prints and what other nodes are told."""

from __future__ import annotations

__all__ = ["__version__"]

__version__ = "0.1.0"
