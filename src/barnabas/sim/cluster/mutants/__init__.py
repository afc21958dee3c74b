"""Bugs planted on purpose, which the seeds of whole clusters must find."""
