"""Spark reads and writes the log: a PySpark data source without a jar, a sink, and the jobs built on them.

`spark.readStream.format("barnabas")` works once this package is installed where Spark's workers run; so does
`writeStream` (`sink`).  In
reading order: `options` (what a user may say), `offsets` (positions as JSON, checkpoints, lag), `plan` (which
offsets the next micro-batch covers: pure functions over a view of the cluster), `source` (Spark's own
interface), `records` and `varints` (bytes to Arrow), `session` and `java` (a Spark that starts anywhere),
`late_workers` (what to do when Spark had no patience), `jobs` (what is run with it).

Nothing here is imported by a broker, and importing this package imports neither Spark nor Arrow.
"""
