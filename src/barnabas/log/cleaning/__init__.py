"""Compaction: which part of a log is dirty, and the segments that replace it."""
