"""A way to a port that can be shut: what was connected is cut, what comes later is not let through."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

__all__ = ["Gate"]


class Gate:
    """`Gate(9092).port` leads to port 9092 of this machine, until `shut()`."""

    def __init__(self, target: int, port: int = 0) -> None:
        self.target = target
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self._open = True
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def shut(self) -> None:
        """Nothing goes through from now on."""
        self._open = False

    def open(self) -> None:
        """Connections go through again."""
        self._open = True

    def close(self) -> None:
        self._closed = True
        self._thread.join(5)

    def _run(self) -> None:
        self._listener.setblocking(False)
        with selectors.DefaultSelector() as selector, self._listener:
            selector.register(self._listener, selectors.EVENT_READ)
            while not self._closed:
                for key, _ in selector.select(0.05):
                    if key.fileobj is self._listener:
                        self._accept(selector)
                    elif isinstance(key.fileobj, socket.socket):
                        self._pass_on(selector, key.fileobj)
                if not self._open:
                    for one in list(self._pairs):
                        self._drop(selector, one)
            for one in list(self._pairs):
                self._drop(selector, one)

    def _accept(self, selector: selectors.BaseSelector) -> None:
        near, _ = self._listener.accept()
        if not self._open:
            near.close()
            return
        far = socket.create_connection(("127.0.0.1", self.target))
        self._pairs |= {near: far, far: near}
        for one in (near, far):
            selector.register(one, selectors.EVENT_READ)

    def _pass_on(self, selector: selectors.BaseSelector, one: socket.socket) -> None:
        if one not in self._pairs:
            return
        try:
            data = one.recv(65536) if self._open else b""
            if data:
                self._pairs[one].sendall(data)
                return
        except OSError:
            pass
        self._drop(selector, one)

    def _drop(self, selector: selectors.BaseSelector, one: socket.socket) -> None:
        other = self._pairs.pop(one, None)
        if other is not None:
            self._pairs.pop(other, None)
            for each in (one, other):
                with contextlib.suppress(KeyError, ValueError):
                    selector.unregister(each)
                each.close()
