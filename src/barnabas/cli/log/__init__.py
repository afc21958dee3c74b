"""`barnabas log`: reads, checks and compacts log directories."""
