"""Asks a schema registry: Confluent's HTTP interface, as it and others (Apicurio, Karapace, Redpanda) serve it.

Answers are short and come in time, or are refused; no redirect is followed, no proxy asked.  What a schema id
means never changes, so that answers are kept for the life of the process.  No error has a login in it.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from barnabas.client.security.tls import context_of
from barnabas.errors import BarnabasError
from barnabas.pipeline.values.registry_options import RegistryOptions
from barnabas.version import __version__

__all__ = ["Registered", "Registry", "RegistryError", "registry_of"]

log = logging.getLogger("barnabas.pipeline")

_CONTENT = "application/vnd.schemaregistry.v1+json"
_LONGEST = 4 << 20
"""Bytes of an answer: a schema of 1 MiB in JSON within JSON."""
_PAUSES_S = (0.25, 1.0)
_NOT_FOUND = range(40401, 40500)
"""What a registry says of a subject or schema that it does not have; another server knows no such codes."""


class RegistryError(BarnabasError):
    """The registry cannot be asked, or refuses."""


class Registered:
    """A schema of the registry: its text, or why it is none that we read."""

    def __init__(self, id_: int, text: str, problem: str = "") -> None:
        self.id = id_
        self.text = text
        self.problem = problem

    def __repr__(self) -> str:
        return f"<Registered {self.id}>"


class Registry:
    """One registry, as one process asks it."""

    def __init__(self, options: RegistryOptions, sleep: Callable[[float], None] = time.sleep) -> None:
        self._options = options
        self._sleep = sleep
        self._ids: dict[tuple[str, str, bool], int] = {}

    def __repr__(self) -> str:
        return f"<Registry {', '.join(self._options.urls)}>"

    def schema(self, id_: int) -> Registered | None:
        """The schema of an id; None: the registry has none.  Raises RegistryError."""
        status, tree = self._ask("GET", f"/schemas/ids/{id_}")
        if _is_missing(status, tree):
            return None
        return _registered(id_, self._good(status, tree, f"schema {id_}"))

    def latest(self, subject: str) -> Registered:
        """The newest schema of a subject.  Raises RegistryError."""
        status, tree = self._ask("GET", f"/subjects/{quote(subject, safe='')}/versions/latest")
        if _is_missing(status, tree):
            raise RegistryError(
                f"{self._where()} has no subject {subject}",
                next_step="check the subject (valueSubject), or give valueSchema",
            )
        found = self._good(status, tree, f"subject {subject}")
        if type(id_ := found.get("id")) is not int:
            raise self._strange()
        registered = _registered(id_, found)
        if registered.problem:
            raise RegistryError(
                f"{self._where()}: the newest schema of {subject} {registered.problem}",
                next_step="give valueSchema",
            )
        return registered

    def id_of(self, subject: str, schema: str, *, register: bool) -> int:
        """The id of a schema under a subject, which gets it if `register`.  Raises RegistryError."""
        key = (subject, schema, register)
        if key not in self._ids:
            self._ids[key] = self._id_of(subject, schema, register)
        return self._ids[key]

    def _id_of(self, subject: str, schema: str, register: bool) -> int:
        path = f"/subjects/{quote(subject, safe='')}"
        status, tree = self._ask("POST", f"{path}/versions" if register else path, {"schema": schema})
        if _is_missing(status, tree) and not register:
            raise RegistryError(
                f"{self._where()} does not have the schema of the sink under {subject}",
                next_step="register it there, or leave auto.register.schemas=false out",
            )
        if status == 409:
            raise RegistryError(
                f"{self._where()} refuses the schema of the sink: it does not go with the others of {subject} "
                f"({_words(tree)})",
                next_step="change the columns so that it does, write with use.latest.version=true, or take "
                "another subject",
            )
        id_ = self._good(status, tree, f"subject {subject}").get("id")
        if type(id_) is not int or not 0 <= id_ < 1 << 32:
            raise self._strange()
        return id_

    # -- one question ------------------------------------------------------------------------------

    def _good(self, status: int, tree: Any, what: str) -> dict[str, Any]:
        if status in (401, 403):
            login = "the login" if self._options.login else "requests without a login"
            raise RegistryError(
                f"{self._where()} refuses {login}: HTTP {status}",
                next_step="check schema.registry.basic.auth.user.info and the user's rights",
            )
        if status // 100 == 3:
            raise RegistryError(
                f"{self._where()} answers with a redirect (HTTP {status}), which is not followed",
                next_step="give the address itself as schema.registry.url",
            )
        if status == 404 and not _words(tree):
            raise self._strange()
        if status != 200:
            raise RegistryError(
                f"{self._where()}, asked for {what[:200]}: HTTP {status}{_in_brackets(_words(tree))}",
                next_step="check schema.registry.url, then the registry's log",
            )
        if not isinstance(tree, dict):
            raise self._strange()
        return tree

    def _strange(self) -> RegistryError:
        return RegistryError(
            f"{self._where()} answers with something else than Confluent's interface has",
            next_step="check schema.registry.url (Apicurio has it below /apis/ccompat/v7)",
        )

    def _where(self) -> str:
        return f"the schema registry {', '.join(self._options.urls)}"

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the JSON of the first address that answers.  Raises RegistryError."""
        said = ""
        for pause in (0.0, *_PAUSES_S):
            if pause:
                log.warning("%s: %s; asking again", self._where(), said)
                self._sleep(pause)
            for url in self._options.urls:
                try:
                    status, content = _exchange(self._options, url, method, path, body)
                except ssl.SSLCertVerificationError as error:
                    raise RegistryError(
                        f"{url}: the registry's certificate is not trusted ({error.verify_message})",
                        next_step="set schema.registry.ssl.truststore.location to its authority",
                    ) from None
                except (OSError, http.client.HTTPException) as error:
                    said = f"{url} does not answer ({_reason(error)})"
                    continue
                if status < 500 and status != 429:
                    return status, _tree(content)
                said = f"{url} answers HTTP {status}{_in_brackets(_words(_tree(content)))}"
        raise RegistryError(
            f"no schema registry: {said}", next_step="check schema.registry.url, and that the registry runs"
        )


def _exchange(options: RegistryOptions, url: str, method: str, path: str, body: Any) -> tuple[int, bytes]:
    """One request and its answer, within the timeout as a whole."""
    parts = urlsplit(url)
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            parts.hostname or "", parts.port, timeout=options.timeout, context=context_of(options.tls)
        )
    else:
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=options.timeout)
    headers = {"Accept": f"{_CONTENT}, application/json", "User-Agent": f"barnabas/{__version__}"}
    if options.login:
        headers["Authorization"] = options.login
    content = None
    if body is not None:
        content = json.dumps(body).encode()
        headers["Content-Type"] = _CONTENT
    late = threading.Event()
    try:
        connection.connect()
        # Who sends a byte now and then is ended, too.  (The connection forgets its socket while it is read from.)
        watch = threading.Timer(options.timeout, _end, (connection.sock, late))
        watch.daemon = True
        watch.start()
        try:
            connection.request(method, f"{parts.path}{path}", content, headers)
            answer = connection.getresponse()
            found = answer.read(_LONGEST + 1)
        finally:
            watch.cancel()
        if late.is_set():
            raise TimeoutError
        if len(found) > _LONGEST:
            raise http.client.HTTPException(f"an answer of more than {_LONGEST >> 20} MiB")
        return answer.status, found
    except OSError:
        if late.is_set():
            raise TimeoutError("timed out") from None
        raise
    finally:
        connection.close()


def _end(sock: socket.socket, late: threading.Event) -> None:
    late.set()
    with contextlib.suppress(OSError):  # (it has ended by itself)
        sock.shutdown(socket.SHUT_RDWR)


def _tree(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _registered(id_: int, tree: dict[str, Any]) -> Registered:
    text, kind = tree.get("schema"), tree.get("schemaType", "AVRO")
    if kind != "AVRO":
        return Registered(id_, "", f"is {str(kind)[:20]}, not Avro")
    if not isinstance(text, str):
        return Registered(id_, "", "has no text")
    if tree.get("references"):
        return Registered(id_, "", "refers to other subjects, which are not read")
    return Registered(id_, text)


def _is_missing(status: int, tree: Any) -> bool:
    return status == 404 and isinstance(tree, dict) and tree.get("error_code") in _NOT_FOUND


def _words(tree: Any) -> str:
    """What the registry says itself, in one line."""
    said = tree.get("message") if isinstance(tree, dict) else None
    return " ".join(said.split())[:200] if isinstance(said, str) else ""


def _in_brackets(text: str) -> str:
    return f" ({text})" if text else ""


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__)[:200]


_registries: dict[RegistryOptions, Registry] = {}


def registry_of(options: RegistryOptions) -> Registry:
    """The registry of these options, which this process keeps with what it has answered."""
    if options not in _registries:
        _registries[options] = Registry(options)
    return _registries[options]
