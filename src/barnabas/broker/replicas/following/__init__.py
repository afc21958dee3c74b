"""What a broker fetches from the leaders of partitions that it follows."""
