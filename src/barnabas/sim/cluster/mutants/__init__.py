"""Mutants of broker/, controller/ and log/, which the seeds of whole clusters must find."""
