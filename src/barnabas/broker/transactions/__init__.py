"""The transaction coordinator: transactional ids, the state of each, and the markers that end a transaction.

Reading order: `state` (one id and what may become of it), `initializing` and `ending` (what a request comes to),
`records` and `state_log` (how it is kept), `markers` (how partitions hear of an end), `coordinator` (all of it).
"""
