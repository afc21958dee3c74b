"""What ends the waits of a client: its clock, a broker's silence, a thread's death, a fork, long work."""
