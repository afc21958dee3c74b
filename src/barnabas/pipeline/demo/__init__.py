"""The demo: three real nodes, a real client, Spark both ways, kill -9 in the middle, and the proof.

In reading order: `children` (processes that never outlive us), `node` and `nodes` (the cluster), `feed` (the
data set at its pace), `stream` (the Spark process and what it says), `strikes` and `voters` (what happens to
them), `screen` and `timeline` (what is seen), `read_back` and `proof`, `report` (table, Parquet, picture).
`cli/demo` puts them together.
"""
