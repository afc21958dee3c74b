"""Clusters of Apache Kafka's and our nodes in which each part is played by a chosen kind."""
