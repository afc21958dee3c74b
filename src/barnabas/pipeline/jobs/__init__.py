"""What people run on a log with Spark.

`archive`, `restore`, `audit`, `mirror` and `late_flights` are the jobs: plain files that one can copy.
`restored_topics` and `mirrored_topics` make what is written, `mirrored_groups` translates offsets,
`checksums` compares, `progress` follows a query, `status` tells others.  `flights` and `flights_query` are the
demo's: its data and its query, a process of its own.
"""
