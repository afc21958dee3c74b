"""What runs every target: limits, mutation, coverage, the corpus, the ledger.  It imports nothing of ours."""
