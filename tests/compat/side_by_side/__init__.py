"""Sequences of requests, drawn by seed, that a node of ours and an Apache Kafka answer side by side.

Reading order: `plan` (a seed -> steps, from `plan_transactions`, `plan_classic`, `plan_consumer`), `requests` (a
step -> a message), `side` (what one of the two said so far), `forms` (an answer without what its server chose),
`walking` (a sequence at both), `listed` (what differs on purpose), `pair` (the two nodes), `running` (all of it).

    python -m tests.compat.side_by_side --seeds 2000
"""
