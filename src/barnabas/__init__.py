"""Barnabas: a Kafka-compatible log whose controller quorum changes while it runs."""
