"""How records get to their leaders.

Reading order: `partitioner`, `batching`, `placement`, `dispatch`, `outbox`, `sending`, `transactions`.
"""
