"""Quorums of controllers in one thread: faults, operators, and promises checked after every event."""
