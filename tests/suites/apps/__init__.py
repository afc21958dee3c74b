"""Applications of Apache Kafka, unmodified, for minutes while brokers are killed: nothing lost, nothing twice.

Numbers 0, 1, 2 ... go in at a steady rate.  The application carries them on, exactly once.  At the end librdkafka,
which is neither ours nor Apache's, reads what is committed, and each number is counted.
"""
