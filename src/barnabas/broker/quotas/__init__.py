"""Quotas of clients (KIP-13, KIP-55, KIP-124, KIP-599, KIP-612).

`rate` measures, `client_quotas` knows who is limited, `mutations` charges for partitions made and deleted.
"""
