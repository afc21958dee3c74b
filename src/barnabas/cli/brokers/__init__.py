"""Brokers that come, go, and carry their share: `barnabas brokers` and `barnabas rebalance`."""
