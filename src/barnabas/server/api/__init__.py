"""What a node serves: one table, and a handler per API."""
