"""Connections: frames in, answers out, and what a client may hold meanwhile."""
