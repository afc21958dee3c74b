"""What a node says about itself: a catalogue of named events over the standard library's logging.

    events.emit(events.CONNECTION_REFUSED, client="10.0.0.7:4711", limit=10000)

Every event has a name that scripts and alerts may rely on, a level, and one sentence.  Written as
`key=value` lines or as JSON (`barnabas.events.format`).  What a client can cause at will is emitted with a
`reason` and limited to a few lines a minute for each (`event_limits`); the next line says how many were left
out.  Everything else may write a burst every second.
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from barnabas.model import NodeId
from barnabas.server.observe.event_limits import EventLimit

__all__ = ["CATALOGUE", "Event", "configure", "emit", "register"]

BURST = 20
"""Lines of one event per second before the rest of that second is only counted."""
LONGEST_VALUE = 1000
"""Characters of one field; a client id may have 32,767."""


class Event:
    """A kind of event.  `name` is `room.what-happened`."""

    __slots__ = ("left_out", "level", "limit", "logger", "name", "second", "sentence", "written")

    def __init__(self, name: str, level: int, sentence: str) -> None:
        self.name = name
        self.level = level
        self.sentence = sentence
        self.logger = logging.getLogger("barnabas." + name.partition(".")[0])
        self.second = 0
        self.written = 0
        self.left_out = 0
        self.limit = EventLimit()

    def __repr__(self) -> str:
        return f"<Event {self.name}>"


CATALOGUE: dict[str, Event] = {}


def register(name: str, level: int, sentence: str) -> Event:
    """Add an event to the catalogue (at import time; a name is added once)."""
    assert name not in CATALOGUE, name
    event = CATALOGUE[name] = Event(name, level, sentence)
    return event


def emit(
    event: Event, *, reason: str | None = None, error: BaseException | None = None, **fields: Any
) -> None:
    """Write one event.  `error` adds its text, and its traceback unless it is one of our own kind.

    `reason` is given where clients can cause the event at will: lines are limited for each reason.  It is
    not written itself; the fields say it.
    """
    if not event.logger.isEnabledFor(event.level):
        return
    if reason is not None:
        limit = event.limit
        if not limit.admits(reason, time.monotonic()):
            return
        if limit.left_out:
            fields["left_out"], limit.left_out = limit.left_out, 0
    elif not _within_burst(event):
        return
    elif event.left_out:
        fields["left_out"], event.left_out = event.left_out, 0
    trace = None
    if error is not None:
        from barnabas.errors import BarnabasError  # only where something went wrong

        fields["error"] = str(error) or type(error).__name__
        if not isinstance(error, (BarnabasError, OSError)):
            trace = (type(error), error, error.__traceback__)
    event.logger.log(
        event.level, event.sentence, exc_info=trace, extra={"event": event.name, "fields": fields}
    )


def _within_burst(event: Event) -> bool:
    second = int(time.monotonic())
    if second != event.second:
        event.second, event.written = second, 0
    event.written += 1
    if event.written > BURST:
        event.left_out += 1
        return False
    return True


class _KeyValue(logging.Formatter):
    """`2026-11-20T15:04:05.123Z INFO    node.started: a node is ready id=1 ...`; with a node `INFO    [3] ...`."""

    def __init__(self, node: NodeId | None) -> None:
        super().__init__()
        self._node = "" if node is None else f"[{node}] "

    def format(self, record: logging.LogRecord) -> str:
        event = getattr(record, "event", record.name)
        head = f"{_stamp(record)} {record.levelname:<7} {self._node}{event}"
        fields = getattr(record, "fields", {})
        line = f"{head}: {record.getMessage()}" + "".join(f" {k}={_quoted(v)}" for k, v in fields.items())
        return line + "\n" + self.formatException(record.exc_info) if record.exc_info else line


class _Json(logging.Formatter):
    """One JSON object per line: time, level, event, message, who wrote it if asked for, and the fields."""

    def __init__(self, node: NodeId | None) -> None:
        super().__init__()
        self._node = {} if node is None else {"written_by": node}

    def format(self, record: logging.LogRecord) -> str:
        import json  # only when asked for

        line: dict[str, Any] = {
            "time": _stamp(record),
            "level": record.levelname.lower(),
            "event": getattr(record, "event", record.name),
            "message": record.getMessage(),
            **self._node,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def _stamp(record: logging.LogRecord) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z"


def _quoted(value: object) -> str:
    text = str(value)
    if len(text) > LONGEST_VALUE:
        text = f"{text[:LONGEST_VALUE]}... ({len(text)} characters)"
    if text and all(32 < ord(c) < 127 and c not in '"=' for c in text):
        return text
    return '"' + text.encode("unicode_escape").decode().replace('"', '\\"') + '"'


def configure(style: str = "text", level: str = "info", *, node: NodeId | None = None) -> None:
    """Write events to standard error (a process does this; a node inside your program does not).

    `node`: each line names it.
    """
    root = logging.getLogger("barnabas")
    for old in list(root.handlers):
        root.removeHandler(old)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(node) if style == "json" else _KeyValue(node))
    root.addHandler(handler)
    root.setLevel(level.upper())
    root.propagate = False


_D, _I, _W, _E = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

NODE_STARTING = register("node.starting", _I, "this node is starting")
NODE_FORMATTED = register("node.formatted", _I, "new directories were formatted")
NODE_STARTED = register("node.started", _I, "this node serves clients")
NODE_STOPPING = register("node.stopping", _I, "this node is stopping")
NODE_STOPPED = register("node.stopped", _I, "this node has stopped")
NODE_STOP_LATE = register("node.stop-late", _W, "the clean stop took too long and was cut short")
NODE_FAILED = register("node.failed", _E, "this node cannot go on")
NODE_STARTS_AGAIN = register(
    "node.starts-again",
    _W,
    "somebody cut or deleted the metadata log of this node, which finds out what is gone",
)
NODE_DIED = register("host.node-died", _E, "a node of this host ended by itself; it is started again")
NODE_AGAIN = register("host.node-again", _I, "a node of this host that ended by itself serves again")
TASK_FAILED = register("node.task-failed", _E, "a background task of this node failed")
SETTING_UNUSED = register("node.setting-unused", _W, "settings of this node have no effect")
SETTING_REFUSED = register(
    "node.setting-refused", _E, "this release does not know a setting in the metadata, or cannot use it here"
)
DESCRIPTORS_SHORT = register(
    "node.descriptors-short",
    _E,
    "a file could not be opened, because too many are open (raise ulimit -n); the node tries again",
)
DESCRIPTORS_LOW = register(
    "node.descriptors-low",
    _W,
    "this process may have fewer files open than its partitions want: it opens and closes theirs again and again",
)
LOOP_LATE = register("node.loop-late", _W, "one step of the event loop took too long")
DIRECTORY_OFFLINE = register("log.directory-offline", _E, "a log directory went offline for good")
DISK_FULL = register("log.disk-full", _E, "a volume is nearly full: records are refused until there is room")
DISK_HAS_ROOM = register("log.disk-has-room", _I, "a volume has room again: records are taken")
DISK_SLOW = register(
    "log.disk-slow",
    _W,
    "a disk takes seconds for a sync: others lead what lies there, where others are in sync",
)
DISK_FAST = register(
    "log.disk-fast", _I, "a disk that was slow is fast again: what lies there may be led here"
)
PARTITION_NOT_HOSTED = register("log.partition-not-hosted", _E, "a partition could not be opened")
LOG_CUT = register("log.cut", _W, "the end of a log was torn by an unclean stop and was truncated")
LOG_LOST = register("log.lost", _E, "records that had been synced are gone: the disk did not keep them")
LOG_DAMAGED = register(
    "log.damaged",
    _E,
    "records of a log cannot be read: readers of these offsets get an error, the others are served",
)
LOG_SET_ASIDE = register(
    "log.set-aside",
    _W,
    "a log that the metadata do not know was renamed: no node reads it, and nothing removes it",
)
LOG_ADOPTED = register(
    "log.adopted",
    _W,
    "partition.metadata did not say whose a log is: it was written again for the topic of its directory's name",
)
LOG_INDEX_REMADE = register(
    "log.index-remade",
    _W,
    "indexes of a log were gone or wrong, and are made again from its records: so many files, this the first",
)
LOG_RECOVERED = register("log.recovered", _I, "logs were recovered after an unclean stop")
LISTENER_OPEN = register(
    "listener.open", _W, "whoever reaches a listener from another machine may do everything without a login"
)
LISTENING = register("listener.listening", _I, "a listener takes connections")
CONNECTION_OPENED = register("connection.opened", _D, "a client connected")
CONNECTION_CLOSED = register("connection.closed", _D, "a connection ended")
CONNECTION_REFUSED = register(
    "connection.refused", _W, "a new connection was closed at once: there are too many"
)
CONNECTION_CROWDED_OUT = register(
    "connection.crowded-out",
    _W,
    "a client that took long to log in was closed for one that has just come: too many are logging in",
)
CONNECTION_HELD = register(
    "connection.held", _I, "a new connection waits: they come faster than max.connection.creation.rate"
)
CONNECTION_TOO_OFTEN = register(
    "connection.too-often",
    _W,
    "a new connection was closed: its address connects too often for its quota",
)
CONNECTION_IDLE = register("connection.idle", _D, "an idle connection was closed")
CONNECTION_STALLED = register(
    "connection.stalled", _W, "a client that took its answers too slowly was closed"
)
CONNECTION_SLOW = register(
    "connection.slow",
    _W,
    "a request that came in too slowly was given up: others waited for the memory it took",
)
CONNECTION_GIVEN_UP = register(
    "connection.given-up",
    _W,
    "a request that waited too long for memory was given up: the node has less than its clients need at a time",
)
ACCEPT_FAILED = register("listener.accept-failed", _E, "connections cannot be accepted")
TLS_REFUSED = register("tls.refused", _W, "a TLS handshake failed: the connection ends")
CERTIFICATE_CHANGED = register(
    "tls.certificate-changed", _I, "a listener shows a new certificate from now on"
)
CERTIFICATE_REFUSED = register(
    "tls.certificate-refused", _E, "changed certificates cannot be used: the ones from before stay"
)
CERTIFICATE_ENDS = register("tls.certificate-ends", _W, "a certificate of this node ends soon, or has ended")
LOGIN_REFUSED = register("login.refused", _W, "a client has not logged in: its connection ends")
SECRET_READABLE = register(
    "secret.readable", _W, "every user of this machine can read a file that holds a key or a password"
)
KEYS_FETCHED = register("login.keys", _I, "the keys that tokens are checked with were fetched")
KEYS_FAILED = register(
    "login.keys-failed",
    _W,
    "the keys that tokens are checked with cannot be fetched; those at hand go on counting",
)
SESSION_ENDED = register("login.ended", _I, "a client that was logged in may not be any more")
FRAME_NEGATIVE = register("connection.frame-negative", _W, "a frame announced a negative length")
FRAME_TOO_LARGE = register("connection.frame-too-large", _W, "a frame announced more than is allowed")
FOREIGN_PROTOCOL = register("connection.foreign-protocol", _W, "a client does not speak Kafka's protocol")
REQUEST_MALFORMED = register("request.malformed", _W, "a request's bytes do not parse")
TELEMETRY_REFUSED = register(
    "telemetry.refused", _W, "metrics that a client pushed cannot be read; they are not kept"
)
REQUEST_UNKNOWN = register("request.unknown-api", _W, "a request is for an API that is not served here")
REQUEST_VERSION = register("request.unsupported-version", _W, "a request has a version that is not served")
REQUEST_FAILED = register("request.failed", _E, "a request met an internal error")
REQUEST_REFUSED = register(
    "request.refused", _W, "a request was refused with an error that its API cannot express"
)
ACCESS_DENIED = register("access.denied", _I, "somebody was refused what they asked for")
ACCESS_ALLOWED = register("access.allowed", _D, "somebody was allowed what they asked for")
ACCESS_ANONYMOUS = register(
    "access.anonymous-super-user",
    _W,
    "whoever reaches a listener without login may do everything: User:ANONYMOUS is in super.users",
)
GROUP_PROTOCOL = register(
    "group.protocol-not-served", _W, "a consumer wants the group protocol of KIP-848, which is not in force"
)
TRANSACTION_TIMED_OUT = register(
    "transactions.timed-out",
    _W,
    "a transaction was open for longer than its producer had asked for; it is aborted, its producer fenced",
)
REQUEST_SLOW = register("request.slow", _W, "a request took long")
MEMORY_SHORT = register("memory.short", _W, "the memory for requests is used up: the node stops reading")
MEMORY_ENOUGH = register("memory.enough", _I, "the node reads requests again")
HTTP_FAILED = register("http.failed", _W, "an HTTP request could not be answered")
