"""What a consumer reads, and how it is asked for: the parts that need no socket and no clock."""
