"""The replicas of one broker: leaders, followers, in-sync sets, disks and maintenance."""
