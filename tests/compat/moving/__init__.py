"""A cluster of Apache Kafka becomes one of Barnabas under traffic, and again Kafka's; Kafka by Kafka beside it."""
