"""A node as a whole: its directories made ready, put together, started and taken apart."""
