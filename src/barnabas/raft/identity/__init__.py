"""Which quorum a node belongs to, and how it tells the nodes of another one."""
