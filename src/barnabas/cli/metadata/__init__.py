"""`barnabas metadata`: reads snapshots and logs of the cluster's metadata."""
