"""Members of consumer groups (KIP-848), who administers them, and what must hold between them (G3 to G5)."""
