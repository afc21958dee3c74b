"""What controllers say to each other, as Kafka's messages, both ways; the only place that knows.

The core (raft/) speaks in requests and responses of its own; the network in Vote, BeginQuorumEpoch,
EndQuorumEpoch, Fetch, FetchSnapshot, Add/Remove/UpdateRaftVoter and ApiVersions.  Four directions:
`asking` has `request_out` and `response_in`, for whom we ask; `answering` has `request_in` and `response_out`, for
who asks us.

All of them are about one partition, `__cluster_metadata`-0; a request about another one is refused as a
whole (INVALID_REQUEST).  A field that an old version lacks is simply not said.
"""
