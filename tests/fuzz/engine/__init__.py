"""What every in-process target is run by: limits, mutation, coverage, the corpus, the ledger.  Imports nothing of ours."""
