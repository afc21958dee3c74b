"""One damaged file: what a start makes of its directory (`test_damaged_directories`), and what a running cluster
makes of it (`matrix`)."""
