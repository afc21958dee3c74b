"""Replication between brokers, and what a broker knows of the life of others."""
