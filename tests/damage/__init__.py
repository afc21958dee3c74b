"""Directories of a node in which one file was damaged: what a start makes of each."""
