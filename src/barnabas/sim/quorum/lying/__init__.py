"""The fourth mode of the quorum's simulator: disks that lose and change what was synced."""
