"""A Spark query that copies a topic exactly once, while its workers, its JVM, its driver and brokers are killed.

`python -m tests.sink_kills --seed 7`; `make sink-kills SEED=7 N=3`.
"""
