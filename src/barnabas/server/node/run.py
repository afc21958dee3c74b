"""Runs one node as a process: its event loop, its signals, its exit code."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from barnabas.config import Config
from barnabas.errors import BarnabasError, LostFileError, ShortFileError
from barnabas.log.segments.open_files import OPEN_FILES, descriptors_for, enough_for
from barnabas.server.loop.collector import Collector
from barnabas.server.loop.system import descriptor_advice, most_descriptors, raise_descriptor_limit
from barnabas.server.node.exposure import open_listeners
from barnabas.server.node.process import ServerNode
from barnabas.server.observe import events

if TYPE_CHECKING:
    from barnabas.server.node.first_start import FirstStart

__all__ = ["about", "loop_factory", "run"]

SWITCH_S = 0.0005
"""So long a thread may keep Python's lock (seconds) while another one wants it.

The loop gives the lock away with every system call, ten times for a record, and compaction, the quorum or a check
of a large batch may have taken it until then.  With Python's own 5 ms one record took 20 ms at the 99th percentile
beside a thread that only computes, and 2 with this, which costs that thread 1 % of its speed.
"""


AGAIN_S = 60.0
"""A node that failed starts again by itself if it ran for so long."""


def loop_factory(config: Config) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The event loop of `barnabas.loop`, or of BARNABAS_LOOP in the environment.  None: asyncio's own."""
    wanted = os.environ.get("BARNABAS_LOOP") or config.str("barnabas.loop")
    if wanted == "asyncio":
        return None
    try:
        import uvloop
    except ImportError:
        if wanted == "uvloop":
            raise BarnabasError(
                "uvloop is not installed", next_step="pip install uvloop, or set barnabas.loop=asyncio"
            ) from None
        return None
    made: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return made


def run(
    config: Config,
    *,
    format_new: bool | None = None,
    on_ready: Callable[[ServerNode], object] | None = None,
    loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    input_ends: int | None = None,
    first: FirstStart | None = None,
) -> int:
    """Run a node until a signal.  Returns the exit code: 0 stopped cleanly, 1 failed while running.

    Raises BarnabasError, with the next step, when it cannot start.  `on_ready` is called once clients are
    served; `loop` makes the event loop, where it is not the one of the setting.  A second signal ends the
    process at once with 128 plus its number.  The end of the input `input_ends` (a descriptor) counts as a signal.
    `first` says what a node whose directories are new does.

    Somebody may cut or delete the metadata log under a running node.  That ends the node, but not the process: a
    start finds out what is gone, and the other voters give it again.
    """
    events.configure(
        config.str("barnabas.events.format"),
        config.str("barnabas.events.level"),
        node=config.node_id if config.bool("barnabas.events.node") else None,
    )
    raise_descriptor_limit()
    OPEN_FILES.allow(most_descriptors())
    collector = Collector()
    collector.install()
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with asyncio.Runner(loop_factory=loop or loop_factory(config)) as runner:
            again_at = -inf
            while True:
                failure = runner.run(_run(config, format_new, on_ready, input_ends, first, collector))
                if not isinstance(failure, (ShortFileError, LostFileError)) or monotonic() < again_at:
                    return 0 if failure is None else 1
                events.emit(events.NODE_STARTS_AGAIN, error=failure)
                again_at, on_ready, first = monotonic() + AGAIN_S, None, None
    finally:
        sys.setswitchinterval(switch_s)
        collector.remove()


async def _run(
    config: Config,
    format_new: bool | None,
    on_ready: Callable[[ServerNode], object] | None,
    input_ends: int | None,
    first: FirstStart | None,
    collector: Collector,
) -> BaseException | None:
    """Run a node until a signal or its failure, which is returned."""
    node = ServerNode(config, format_new=format_new)
    told = asyncio.Event()

    def signalled(number: int) -> None:
        if told.is_set():
            os._exit(128 + number)
        told.set()

    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_loop_failed)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number)
    if input_ends is not None:
        loop.add_reader(input_ends, _read_to_the_end, loop, input_ends, told)
    starting = asyncio.ensure_future(_start(node, config, first))
    stopping = asyncio.ensure_future(told.wait())
    await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        return None
    starting.result()
    collector.settle()
    _look_at_descriptors(node)
    if on_ready is not None:
        on_ready(node)
    failing = asyncio.ensure_future(node.failed.wait())
    await asyncio.wait((stopping, failing), return_when=asyncio.FIRST_COMPLETED)
    for waiting in (stopping, failing):
        waiting.cancel()
    await node.stop()
    return node.failure


def _look_at_descriptors(node: ServerNode) -> None:
    """Say so if not every partition of this node can have a file open at the same time."""
    broker = node.broker
    partitions = 0 if broker is None else sum(1 for _ in broker.logs.all_logs())
    if not enough_for(partitions, most_descriptors()):
        events.emit(
            events.DESCRIPTORS_LOW,
            limit=most_descriptors(),
            partitions=partitions,
            next=descriptor_advice(descriptors_for(partitions)),
        )


async def _start(node: ServerNode, config: Config, first: FirstStart | None) -> None:
    if first is not None:
        from barnabas.log.files.disk import OsDisk
        from barnabas.server.loop.system import SystemClock, SystemRandomness
        from barnabas.server.node.first_start import prepare

        await prepare(config, first, OsDisk(), SystemClock(), SystemRandomness())
    await node.start()


def _read_to_the_end(loop: asyncio.AbstractEventLoop, descriptor: int, told: asyncio.Event) -> None:
    if not os.read(descriptor, 65536):
        loop.remove_reader(descriptor)
        told.set()


def _loop_failed(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What the event loop could not do for us; it tries again to accept connections after a second."""
    error = context.get("exception")
    if isinstance(error, OSError) and "accept" in context.get("message", ""):
        events.emit(events.ACCEPT_FAILED, error=error)
    else:
        loop.default_exception_handler(context)


def about(node: ServerNode) -> dict[str, Any]:
    """Return what is told of a node that is ready: its ids, directories, listeners."""
    home, config = node.storage, node.config
    assert home is not None
    return {
        "cluster_id": home.cluster_id,
        "node_id": config.node_id,
        "directory_id": str(home.directory_id),
        "directories": list(config.log_dirs),
        "formatted": home.formatted,
        "listeners": sorted((str(endpoint) for endpoint in node.endpoints), key=_clients_first(config)),
        "open_listeners": [str(one.endpoint) for one in open_listeners(config, node.listeners)],
        "http": None if node.http_address is None else f"http://{node.http_address}",
        "durability": "sync" if config.log_config().sync_before_ack else "page-cache",
    }


def _clients_first(config: Config) -> Callable[[str], bool]:
    names = {endpoint.listener for endpoint in config.controller_listeners}
    return lambda text: text.split("://")[0] in names
