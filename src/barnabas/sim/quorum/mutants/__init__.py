"""Mutants of raft/, log/ and the driver of the quorum, which the seeds must find."""
