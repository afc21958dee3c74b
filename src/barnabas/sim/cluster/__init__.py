"""Whole clusters in one thread: real nodes, virtual time, one seed."""

from __future__ import annotations
