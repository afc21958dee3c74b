"""The topic for values that cannot be read: as they are, with headers that say where from and why.

At least once: what a task has sent is sent again when the task, or its micro-batch, runs again; the headers say
which record it was.  None is lost: the rows of a batch go on only after its letters are acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from barnabas.client.producer import Producer
from barnabas.client.security.options import Security
from barnabas.errors import ConfigError
from barnabas.pipeline.values.options import ValueOptions

__all__ = ["HEADERS", "DeadLetters", "Letter", "check_topic"]

HEADERS = ("barnabas.topic", "barnabas.partition", "barnabas.offset", "barnabas.error")


def check_topic(values: ValueOptions | None, topics: Callable[[Sequence[str]], Collection[str]]) -> None:
    """Whether the topic for bad values is there, before anything is read.  Raises ConfigError."""
    if values is not None and values.dead_letters and not topics([values.dead_letters]):
        raise ConfigError(
            f"badRecords=topic:{values.dead_letters}: there is no such topic",
            next_step=f"make it: barnabas topics create {values.dead_letters}",
        )


class Letter(NamedTuple):
    """A record whose value cannot be read."""

    key: bytes | None
    value: bytes
    topic: str
    partition: int
    offset: int
    error: str


class DeadLetters:
    """Writes letters to one topic."""

    def __init__(self, bootstrap: str, topic: str, client_id: str, security: Security) -> None:
        self._topic = topic
        self._producer = Producer(bootstrap, client_id=client_id, security=security, stop_at_error=True)

    def __repr__(self) -> str:
        return f"<DeadLetters {self._topic}>"

    def send(self, letters: Iterable[Letter]) -> None:
        """Returns once all of them are acknowledged.  Raises KafkaError, ConnectionFailed."""
        for letter in letters:
            origin = (
                letter.topic.encode(),
                str(letter.partition).encode(),
                str(letter.offset).encode(),
                letter.error.encode("utf-8", "replace"),
            )
            headers = dict(zip(HEADERS, origin, strict=True))
            self._producer.send(self._topic, letter.value, letter.key, headers=headers)
        self._producer.flush()  # raises what any of them failed with

    def close(self) -> None:
        """End its connections."""
        self._producer.abandon()
