"""Several nodes on one host, one process for each core: `barnabas start --nodes`."""
