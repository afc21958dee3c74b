"""A whole cluster in one thread, by seed: the world that the four doors open to in a test.

Nobody imports this but tests and the `sim` command.
"""
