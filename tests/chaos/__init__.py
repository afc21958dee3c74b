"""Chaos with real processes: a cluster under traffic whose nodes, disks and links fail by a drawn seed.

In reading order: `ground` (network namespaces, or loopback), `node` (a node whose disk can be stalled),
`cluster` (its processes, and what an operator would ask them), `traffic` (librdkafka and Java clients that
keep a history), `faults` (what can go wrong), `story` (which of it, when, and what came of it).

    make chaos SEED=7            python -m tests.chaos --seed 7 --faults 60
"""
