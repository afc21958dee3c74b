"""Seeds of a cluster with disks that lie: `barnabas simulate --cluster --lies`.  `rot` knows what is damaged,
`faults` damages it, `lying_run` is the seed."""
