"""Drills that move the quorum from one set of voters to another by a target."""
