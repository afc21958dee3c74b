"""The demo: three real nodes, a real client, Spark, a kill -9 in the middle, and the proof.

In reading order: `children` (processes that never outlive us), `node` and `nodes` (the cluster), `feed` (the
data set at its pace), `stream` (the Spark process and what it says), `screen`, `proof`, `report` (table,
Parquet, picture).
`cli/demo` puts them together.
"""
