"""A node's part in the metadata quorum: drives raft/ over disk and network."""
