"""The event loop of a node: its steps, threads, tasks and memory."""
