"""How the voter set changes: what is pending, its steps, a target set, and a lost majority (KIP-853, KIP-642)."""
