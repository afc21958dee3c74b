"""A schema registry in this process: the part of Confluent's HTTP interface that serializers ask for.

It is for what a real one does not do on demand (be slow, lie, redirect); tests/compat/test_schema_registry.py
asks a real one.
"""

from __future__ import annotations

import json
import ssl
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler], None]


class RegistryServer:
    """`url` answers; `asked` has the requests; `instead` answers in its place while it is set."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[tuple[str, str, str | None]] = []
        self.instead: Answer | None = None
        self.refuses: set[str] = set()
        """Subjects that take no more schema."""
        self.url = ""

    def add(self, subject: str, schema: str, **more: Any) -> int:
        """The id of a schema, which is new or known."""
        entry = {"schema": schema, **more}
        known = [_meaning(one) for one in self.schemas]
        if _meaning(entry) not in known:
            self.schemas.append(entry)
            known.append(_meaning(entry))
        id_ = known.index(_meaning(entry)) + 1
        if id_ not in self.subjects.setdefault(subject, []):
            self.subjects[subject].append(id_)
        return id_

    def answer(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        parts = [urllib.parse.unquote(part) for part in path.split("?")[0].strip("/").split("/")]
        match [method, *parts]:
            case ["GET", "schemas", "ids", id_]:
                known = 0 < int(id_) <= len(self.schemas)
                return (200, self.schemas[int(id_) - 1]) if known else (404, _error(40403))
            case ["GET", "subjects", subject, "versions", "latest"]:
                if subject not in self.subjects:
                    return 404, _error(40401)
                id_ = self.subjects[subject][-1]
                version = {"subject": subject, "version": len(self.subjects[subject]), "id": id_}
                return 200, {**version, **self.schemas[id_ - 1]}
            case ["POST", "subjects", subject, "versions"]:
                if subject in self.refuses:
                    return 409, _error(409, "Schema being registered is incompatible\nwith an earlier schema")
                return 200, {"id": self.add(subject, body["schema"])}
            case ["POST", "subjects", subject]:
                for id_ in self.subjects.get(subject, []):
                    if json.loads(self.schemas[id_ - 1]["schema"]) == json.loads(body["schema"]):
                        return 200, {"subject": subject, "id": id_, "version": 1, "schema": body["schema"]}
                return 404, _error(40403)
        return 404, None


def _meaning(entry: dict[str, Any]) -> Any:
    try:
        return {**entry, "schema": json.loads(entry["schema"])}
    except ValueError:
        return entry


def _error(code: int, message: str = "not found") -> dict[str, Any]:
    return {"error_code": code, "message": message}


@contextmanager
def registry_server(context: ssl.SSLContext | None = None) -> Iterator[RegistryServer]:
    """One at a free port; with a context it speaks TLS."""
    registry = RegistryServer()

    class Handler(BaseHTTPRequestHandler):
        def _do(self) -> None:
            registry.asked.append((self.command, self.path, self.headers.get("Authorization")))
            size = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(size) or b"{}")
            if registry.instead is not None:
                registry.instead(self)
                return
            status, tree = registry.answer(self.command, self.path, body)
            send(
                self, status, json.dumps(tree).encode() if tree is not None else b"<html>no such page</html>"
            )

        do_GET = do_POST = _do  # noqa: N815 (the library's names)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    registry.url = f"http{'' if context is None else 's'}://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, content: bytes, **headers: str) -> None:
    """An answer as a whole."""
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    handler.wfile.write(content)
