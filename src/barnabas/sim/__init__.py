"""Simulators: a whole cluster in one thread, by seed, behind the interfaces of `doors`.

Only tests and the `sim` command import this package.
"""
