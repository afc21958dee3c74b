"""Drills: changes of a running cluster, rehearsed with real processes.  `stage` has the nodes and what is typed at
them, `traffic` the records and the proof, `stories` one file for each drill, `drill` the command."""
