"""Consumer groups: members, offsets, and the records that keep both."""
