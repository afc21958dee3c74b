"""Simulators: a whole cluster in one thread, by seed, behind the interfaces of `ports`.

Only tests and `barnabas simulate` import this package.
"""
