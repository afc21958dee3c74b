"""The nodes of one host as child processes: started together, started again when one dies, stopped in order.

Each child says in a line of JSON that it serves.  Its standard input is a pipe that nobody writes to: it ends
with this process, however this one ends, and the child stops then (`barnabas start --until-eof`).
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from barnabas.config import Config
from barnabas.errors import BarnabasError
from barnabas.interpreter import python_words
from barnabas.model import NodeId
from barnabas.server.node.host.layout import HostNode
from barnabas.server.observe import events

__all__ = ["run_host"]

_FIRST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
"""Seconds before a node that died is started again: twice as many each time, less again once it has served."""

Ready = Callable[[list[dict[str, Any]]], object]


def run_host(config: Config, nodes: Sequence[HostNode], settings: Sequence[str], on_ready: Ready) -> int:
    """Run these nodes until a signal.  Returns 0 when all of them stopped cleanly, else 1.

    `settings` are NAME=VALUE, laid over those of the file of `config`; the properties that are derived for each
    node are laid over both.  `on_ready` gets what each node says of itself.  A second signal ends all of them at
    once.
    Raises BarnabasError when one does not start.
    """
    events.configure(config.str("barnabas.events.format"), config.str("barnabas.events.level"))
    return asyncio.run(_Host(nodes, config.file, settings).run(on_ready))


class _Child:
    """One node: its process now, and how it has fared."""

    def __init__(self, node: HostNode, words: Sequence[str]) -> None:
        self.id: NodeId = node.id
        self.is_controller = bool(node.controller)
        self.process: asyncio.subprocess.Process | None = None
        self._words = words
        self._pause = _FIRST_PAUSE

    def __repr__(self) -> str:
        return f"<_Child {self.id} pid={self.process.pid if self.process else None}>"

    async def start(self) -> dict[str, Any]:
        """Returns what it says of itself once it serves.  Raises BarnabasError when it ends before."""
        self.process = process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process, which stops the nodes in order
            limit=1 << 20,
        )
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line:
            code = await process.wait()
            raise BarnabasError(
                f"node {self.id} ended with code {code} before it served",
                next_step="its reason stands above, in its own words",
            )
        self._pause = _FIRST_PAUSE
        about: dict[str, Any] = json.loads(line)["node"]
        return {**about, "pid": process.pid, "controller": self.is_controller}

    async def ended(self) -> int:
        """Its exit code, once it has ended."""
        assert self.process is not None
        return await self.process.wait()

    async def pause(self) -> None:
        """What passes before it is started again."""
        seconds, self._pause = self._pause, min(self._pause * 2, _LONGEST_PAUSE)
        await asyncio.sleep(seconds)

    def tell(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.process is not None and self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.send_signal(number)


class _Host:
    def __init__(self, nodes: Sequence[HostNode], file: str | None, settings: Sequence[str]) -> None:
        self._children = [_Child(node, _words(node, file, settings)) for node in nodes]
        self._told = asyncio.Event()

    def __repr__(self) -> str:
        return f"<_Host {self._children}>"

    async def run(self, on_ready: Ready) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        told = asyncio.ensure_future(self._told.wait())
        starting = asyncio.gather(*(child.start() for child in self._children))
        await asyncio.wait((told, starting), return_when=asyncio.FIRST_COMPLETED)
        try:
            if not self._told.is_set():
                on_ready(starting.result())
                await self._keep(told)
        finally:
            told.cancel()
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            codes = await self._stop()
        return int(any(codes))

    async def _keep(self, told: asyncio.Future[Any]) -> None:
        """Whoever dies is started again, until a signal comes."""
        keepers = [asyncio.ensure_future(self._keep_one(child)) for child in self._children]
        await told
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    async def _keep_one(self, child: _Child) -> None:
        while True:
            code = await child.ended()
            events.emit(events.NODE_DIED, node=child.id, code=code)
            await child.pause()
            with suppress(BarnabasError, OSError):  # it is told of when it ends, and the next try follows
                about = await child.start()
                events.emit(events.NODE_AGAIN, node=child.id, pid=about["pid"])

    async def _stop(self) -> list[int]:
        """Brokers first: they hand their partitions over while there are controllers to ask."""
        codes: list[int] = []
        for controllers in (False, True):
            those = [c for c in self._children if c.is_controller == controllers and c.process is not None]
            for child in those:
                child.tell(signal.SIGTERM)
            codes += await asyncio.gather(*(child.ended() for child in those))
        return codes

    def _signalled(self) -> None:
        if self._told.is_set():
            for child in self._children:
                child.tell(signal.SIGKILL)
        self._told.set()


def _words(node: HostNode, file: str | None, settings: Sequence[str]) -> list[str]:
    derived = [f"{name}={value}" for name, value in node.properties.items()]
    overrides = [word for setting in (*settings, *derived) for word in ("--override", setting)]
    named = [file] if file is not None else []
    return python_words("barnabas", "start", *named, "--json", "--until-eof", *overrides)
