"""Quorums of controllers in one thread: faults, operators, and invariants checked after every event."""
