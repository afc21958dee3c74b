"""Ends of a client's waits: its clock, a broker's silence, a thread's death, a fork, long work."""
