"""What an archive of topics is on disk, and how Spark reads it in order.

In reading order: `directory` (what it says of itself), `file_log` (Spark's list of its files), `index` (the files
of each partition by offset), `source` (the data source).
"""
