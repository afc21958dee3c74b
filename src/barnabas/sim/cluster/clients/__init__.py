"""Simulated clients: they produce, consume and commit, and remember what they were told."""
