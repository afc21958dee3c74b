"""What the exit code of `barnabas` says.  Scripts may rely on these numbers; they are in docs/cli.md.

0 is success, 1 a refusal or failure with an `error:` line, 2 wrong usage (argparse's own).  The others
single out what a script may want to treat differently: not there yet (3, 5), not found (4), damaged
data (6).
"""

from __future__ import annotations

import errno
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from barnabas.errors import (
    BarnabasError,
    ConfigError,
    CorruptRecordError,
    ErrorCode,
    KafkaError,
    StorageError,
)

__all__ = ["NO_ROOM", "Exit", "MissingFileError", "exit_code", "next_step_of", "signals_stop"]


NO_ROOM = "make room where it goes, and repeat the command"
"""The next step where output cannot be written."""


class Exit(IntEnum):
    """`sys.exit(Exit.OK)`: the exit codes of the command line."""

    OK = 0
    FAILED = 1
    """The command was understood and refused, or failed."""
    USAGE = 2
    """Unknown noun, verb or flag, or a value that makes no sense."""
    UNREACHABLE = 3
    """No broker could be reached, or the connection was lost."""
    NOT_FOUND = 4
    """The topic, group, or file named does not exist."""
    TIMED_OUT = 5
    """No answer in time: it may or may not have been carried out."""
    DAMAGED = 6
    """Files or records whose bytes are not what they should be."""
    INTERRUPTED = 130
    """Ctrl-C (128 + SIGINT), as shells do it."""


MEANINGS = {
    Exit.OK: "success",
    Exit.FAILED: "refused or failed; the reason is on stderr",
    Exit.USAGE: "wrong usage: unknown command, flag or value",
    Exit.UNREACHABLE: "no broker reachable, or the connection was lost",
    Exit.NOT_FOUND: "the topic, group or file does not exist",
    Exit.TIMED_OUT: "no answer in time; it may or may not have happened",
    Exit.DAMAGED: "damaged files or records",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
}


@contextmanager
def signals_stop() -> Iterator[None]:
    """Have SIGTERM and Ctrl-C end a command that serves with 0, too, before its event loop listens to them."""

    def stop(number: int, frame: object) -> None:
        raise SystemExit(Exit.OK)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGTERM, signal.SIGINT)
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class MissingFileError(StorageError):
    """A file or directory that was named does not exist."""


_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
        ErrorCode.DELEGATION_TOKEN_NOT_FOUND,
    }
)
_NO_RIGHT = frozenset(code for code in ErrorCode if code.name.endswith("_AUTHORIZATION_FAILED"))


def exit_code(error: BaseException) -> Exit:
    """`exit_code(error)`: the code under which the command ends because of `error`."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, KafkaError):
        if error.code in _NOT_FOUND:
            return Exit.NOT_FOUND
        return Exit.TIMED_OUT if error.code == ErrorCode.REQUEST_TIMED_OUT else Exit.FAILED
    if isinstance(error, (MissingFileError, FileNotFoundError)) or isinstance(
        error.__cause__, FileNotFoundError
    ):
        return Exit.NOT_FOUND
    if isinstance(error, CorruptRecordError):
        return Exit.DAMAGED
    if isinstance(error, ConfigError):
        return Exit.USAGE
    if isinstance(error, StorageError):
        return Exit.FAILED
    if isinstance(error, BarnabasError):
        return Exit(getattr(error, "exit_code", Exit.FAILED))
    return Exit.FAILED


_NEXT = {
    Exit.NOT_FOUND: "look at what there is: a list of the same noun, or the path as it was typed",
    Exit.UNREACHABLE: "start a node with `barnabas start`, or give its address with --bootstrap-server",
    Exit.TIMED_OUT: "look at what became of it before you repeat it; --timeout gives it longer",
    Exit.DAMAGED: "`barnabas log verify DIR` shows which batches are damaged",
}


def next_step_of(error: BaseException, noun: str = "") -> str:
    """`next_step_of(error, "topics")`: what it says itself, else what helps with such an error."""
    own = getattr(error, "next_step", None)
    if own:
        return str(own)
    if isinstance(error, PermissionError):
        return "run it as the user who owns that, or change its permissions"
    if isinstance(error, FileNotFoundError):
        return "check the path"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return NO_ROOM
    if isinstance(error, KafkaError) and error.code in _NOT_FOUND:
        nouns = {ErrorCode.GROUP_ID_NOT_FOUND: "groups", ErrorCode.TRANSACTIONAL_ID_NOT_FOUND: "transactions"}
        return f"`barnabas {nouns.get(error.code, 'topics')} list` shows what there is"
    if isinstance(error, KafkaError) and error.code in _NO_RIGHT:
        return "`barnabas acls why` shows an administrator which right is missing, and what gives it"
    explained = f"`barnabas {noun} --help`" if noun else "`barnabas --help`"
    return _NEXT.get(exit_code(error), f"{explained} shows what it takes, with examples")
