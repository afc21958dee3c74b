"""A console in this process, and somebody who opens it; each header that is sent is the test's."""

from __future__ import annotations

import asyncio
import http.client
import threading
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from barnabas.console.serving import Console

__all__ = ["Browser", "Page", "opened"]


class Page(NamedTuple):
    """An answer."""

    status: int
    text: str
    headers: dict[str, str]


class Browser:
    """Keeps its cookie, and sends what a browser sends; `headers` replace, None leaves one out."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.host = f"127.0.0.1:{port}"
        self.cookie = ""

    def get(self, target: str, headers: Mapping[str, str | None] | None = None) -> Page:
        return self.ask("GET", target, b"", {}, headers)

    def post(
        self, target: str, fields: Mapping[str, str] | bytes, headers: Mapping[str, str | None] | None = None
    ) -> Page:
        body = fields if isinstance(fields, bytes) else urllib.parse.urlencode(fields).encode()
        own = {"Origin": f"http://{self.host}", "Content-Type": "application/x-www-form-urlencoded"}
        return self.ask("POST", target, body, own, headers)

    def ask(
        self,
        method: str,
        target: str,
        body: bytes,
        own: Mapping[str, str],
        headers: Mapping[str, str | None] | None = None,
    ) -> Page:
        cookie = {"Cookie": self.cookie} if self.cookie else {}
        sent = {"Host": self.host, **cookie, **own, **(headers or {})}
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        line.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            if value is not None:
                line.putheader(name, value)
        if body:
            line.putheader("Content-Length", str(len(body)))
        line.endheaders(body or None)
        answer = line.getresponse()
        text = answer.read().decode()
        line.close()
        found = {name.lower(): value for name, value in answer.getheaders()}
        if "set-cookie" in found:
            self.cookie = found["set-cookie"].partition(";")[0]
        return Page(answer.status, text, found)

    def log_in(self, user: str = "", password: str = "") -> Page:
        return self.post("/login", {"user": user, "password": password} if user else {})


@contextmanager
def opened(bootstrap: str, options: Mapping[str, str] | None = None) -> Iterator[tuple[Console, Browser]]:
    """A console that serves, in a thread, until the block ends."""
    loop = asyncio.new_event_loop()
    console = Console(bootstrap, options or {})
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(console.__aenter__(), loop).result(30)
        yield console, Browser(int(console.url.rpartition(":")[2].strip("/")))
    finally:
        asyncio.run_coroutine_threadsafe(console.__aexit__(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
