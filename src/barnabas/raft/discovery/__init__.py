"""Finding each other: where the controllers listen now, told from node to node (KIP-642, "gossip")."""
