"""What clients ask of partitions, one file per request."""
