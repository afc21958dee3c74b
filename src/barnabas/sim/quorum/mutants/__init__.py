"""Bugs planted on purpose, which the seeds must find."""
