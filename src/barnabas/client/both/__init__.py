"""Work that waits, written once: coroutines over clusters and connections whose calls are awaited.

Over what blocks every call has returned by the time it is awaited, so such a coroutine runs to its end in one step
(`awaited.at_once`): no loop, no task and no thread is there.
"""
