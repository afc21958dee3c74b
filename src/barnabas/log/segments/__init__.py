"""The files of one partition: segments of records, their indexes, and what tells that one is damaged."""
