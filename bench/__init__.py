"""Side by side with a real Apache Kafka, on the user's machine: `make bench`."""
