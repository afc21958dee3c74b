"""Background work on a broker's logs: retention, checkpoints, compaction, scrubbing."""
