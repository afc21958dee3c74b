"""The matrix of damage: one file of a running cluster damaged under counted traffic, by seed, and what came of it.

In reading order: `plan` (the columns, and which row a seed is), `harm` (what is done to which file), `traffic` and
`readers` (what was acknowledged, what was served), `nodes` (the processes) and `apache` (those of Apache Kafka),
`run` (one seed), `verdict` (what that run comes to), `tally` (runs added up), `beside` (both kinds side by side).

    make damage N=300 SEED=1 NODES=3 RUNS=runs.jsonl       python -m tests.damage.matrix runs.jsonl
"""
