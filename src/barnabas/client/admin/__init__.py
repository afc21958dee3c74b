"""Administration: topics, configs, groups, moves of replicas, the quorum."""
