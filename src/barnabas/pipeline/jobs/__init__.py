"""What people run on a log with Spark.

`archive`, `restore` and `audit` are the jobs: plain files that one can copy.  `archive_directory` is what an
archive is on disk, `archive_source` reads it in order, `checksums` compares, `progress` follows a query, `status`
tells others.  `flights` and `flights_query` are the demo's: its data and its query, a process of its own.
"""
