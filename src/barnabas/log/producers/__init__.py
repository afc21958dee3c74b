"""Idempotent producers and transactions of a log: their state, its snapshots, and how a start builds it anew."""
