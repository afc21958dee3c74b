"""How records get to their leaders.

Reading order: `partitioner`, `batching`, `dispatch`, `sending`, `transactions`.
"""
