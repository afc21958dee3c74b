"""One module per family of messages: declarations printed from Kafka's own."""
