"""Addresses on disk: what a controller has heard of the others, and what it starts with after a move."""
