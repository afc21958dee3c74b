"""What a broker does to its logs besides serving them, in the background: when, in which order, how fast."""
