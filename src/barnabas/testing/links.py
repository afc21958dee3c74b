"""An event loop whose connections to some addresses can be cut and healed: no packet passes, nothing is refused.

A cut connection stays open on both sides, as when a cable is out: what is written waits, what arrives is not
read, a new dial hangs until it gives up.  After the link is healed all of it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

__all__ = ["LinkedLoop"]

Address = tuple[str, int]


class LinkedLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop; `cut` says which addresses it cannot reach from now on."""

    def __init__(self) -> None:
        super().__init__()
        self._cut: frozenset[Address] = frozenset()
        self._links: set[_Link] = set()
        self._healed = asyncio.Event()

    def cut(self, addresses: Iterable[Address]) -> None:
        """These addresses are out of reach, all others within it (again)."""
        self._cut = frozenset(addresses)
        self._healed.set()
        self._healed = asyncio.Event()
        for link in list(self._links):
            link.set_cut(link.address in self._cut)

    async def create_connection(  # type: ignore[override]  # the one form that nodes use
        self, protocol_factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int, **options: Any
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        """Dial, once the link to that address is whole."""
        address = (host, port)
        while address in self._cut:
            await self._healed.wait()
        link = _Link(protocol_factory(), address, self._links)
        await super().create_connection(lambda: link, host, port, **options)
        link.set_cut(address in self._cut)
        return link.end, link.protocol


class _Link(asyncio.BufferedProtocol):
    """One connection: stands between the socket's transport and the protocol that dialled."""

    def __init__(self, protocol: asyncio.BufferedProtocol, address: Address, links: set[_Link]) -> None:
        self.protocol = protocol
        self.address = address
        self.cut = False
        self._links = links
        self._held: list[bytes] = []
        self._gone = False

    def set_cut(self, cut: bool) -> None:
        """Hold everything, or let it pass again."""
        if cut == self.cut or self not in self._links:
            return
        self.cut = cut
        if cut:
            self._transport.pause_reading()
        elif self._gone:
            self._transport.close()
        else:
            self._transport.resume_reading()
            held, self._held = self._held, []
            self._transport.writelines(held)

    def write(self, parts: Iterable[bytes]) -> None:
        """Send it now, or when the link is whole again."""
        if self.cut:
            self._held += (bytes(part) for part in parts)
        else:
            self._transport.writelines(parts)

    def close(self) -> None:
        """Close the connection; while the link is cut, the other side does not hear of it."""
        if not self.cut:
            self._transport.close()
        elif not self._gone:
            self._gone = True
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    @property
    def closing(self) -> bool:
        """Whether it is of no more use to who dialled."""
        return self._gone or self._transport.is_closing()

    # -- what asyncio calls ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._links.add(self)
        self.end = _End(self, self._transport)
        self.protocol.connection_made(self.end)

    def get_buffer(self, sizehint: int) -> Any:
        return self.protocol.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        self.protocol.buffer_updated(nbytes)

    def connection_lost(self, error: Exception | None) -> None:
        self._links.discard(self)
        if not self._gone:
            self.protocol.connection_lost(error)

    def pause_writing(self) -> None:
        self.protocol.pause_writing()

    def resume_writing(self) -> None:
        self.protocol.resume_writing()


class _End(asyncio.Transport):
    """What the protocol that dialled takes for its transport."""

    def __init__(self, link: _Link, transport: asyncio.Transport) -> None:
        super().__init__()
        self._link = link
        self._transport = transport

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._transport.get_extra_info(name, default)

    def is_closing(self) -> bool:
        return self._link.closing

    def close(self) -> None:
        self._link.close()

    def abort(self) -> None:
        self._link.close()

    def write(self, data: Any) -> None:
        self._link.write((data,))

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self._link.write(list_of_data)
