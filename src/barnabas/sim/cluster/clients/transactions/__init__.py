"""Clients with transactions: producers, readers of committed records, who disturbs them, and the checker."""
