"""What the exit code of `barnabas` says.  Scripts may rely on these numbers; they are in docs/cli.md.

0 is success, 1 a refusal or failure with an `error:` line, 2 wrong usage (argparse's own).  The others
single out what a script may want to treat differently: not there yet (3, 5), not found (4), damaged
data (6).
"""

from __future__ import annotations

from enum import IntEnum

from barnabas.errors import (
    BarnabasError,
    ConfigError,
    CorruptRecordError,
    ErrorCode,
    KafkaError,
    StorageError,
)

__all__ = ["Exit", "exit_code"]


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

_NOT_FOUND = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.RESOURCE_NOT_FOUND,
    }
)


def exit_code(error: BaseException) -> Exit:
    """`exit_code(error)`: the code under which the command ends because of `error`."""
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    if isinstance(error, KafkaError):
        if error.code in _NOT_FOUND:
            return Exit.NOT_FOUND
        return Exit.TIMED_OUT if error.code == ErrorCode.REQUEST_TIMED_OUT else Exit.FAILED
    if isinstance(error, CorruptRecordError):
        return Exit.DAMAGED
    if isinstance(error, ConfigError):
        return Exit.USAGE
    if isinstance(error, FileNotFoundError):
        return Exit.NOT_FOUND
    if isinstance(error, StorageError):
        return Exit.FAILED
    if isinstance(error, BarnabasError):
        return Exit(getattr(error, "exit_code", Exit.FAILED))
    return Exit.FAILED
