"""What was given to `.option()`, read word by word.

A name that is nearly one of ours is a misspelling and an error that says which; any other that we do not know
belongs to somebody else (another connector, a setting of Java's client) and is passed over, with one warning.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from barnabas.client.security.options import NAMES as SECURITY_NAMES
from barnabas.client.security.options import Security, is_security_option
from barnabas.errors import ConfigError

__all__ = ["CLIENT_SETTINGS", "INT64", "OF_KEYS", "SECURITY", "OptionWords"]

_KAFKA = "kafka."
SECURITY = {f"{_KAFKA}{name}": meaning for name, meaning in SECURITY_NAMES.items()}
"""How source and sink log in: the client's options."""

CLIENT_SETTINGS = frozenset(
    f"kafka.{name}"
    for name in (
        "auto.include.jmx.reporter",
        "client.dns.lookup",
        "config.providers",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "metadata.max.age.ms",
        "metadata.recovery.strategy",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    )
)
"""Settings of every Java client that have no effect here: no misspellings."""
OF_KEYS = ("keyFormat", "keySchema", "keySubject")
"""Not served: passed over, they would leave keys as they are where somebody asked for more."""
_NEAR = 0.75
INT32, INT64 = (1 << 31) - 1, (1 << 63) - 1
"""The largest numbers that Kafka's messages carry."""
_DIGITS = 100
"""Beyond them Python does not read a number, and no bound is so large."""


class OptionWords:
    """The options as given, read one by one.

    `names` are those that there are, `no_effect` those that are passed over, `refused` says what to do instead.
    """

    def __init__(
        self,
        given: Mapping[str, str],
        names: Iterable[str],
        no_effect: Collection[str],
        refused: Mapping[str, str],
    ) -> None:
        known = {name.lower(): name for name in (*names, *no_effect)}
        never = {name.lower(): (name, why) for name, why in refused.items()}
        self.values: dict[str, str] = {}
        foreign: set[str] = set()
        self._security: dict[str, str] = {}
        for word, value in given.items():
            setting = word.lower().removeprefix(_KAFKA)
            if word.lower().startswith(_KAFKA) and is_security_option(setting):
                self._security[setting] = value
                continue
            if word.lower() in never:
                proper, why = never[word.lower()]  # (Spark hands words over in small letters)
                raise ConfigError(f"option {proper} cannot be set", next_step=why)
            name = known.get(word.lower())
            if name is not None:
                self.values[name] = value
            elif near := _nearest(word.lower(), known):
                raise ConfigError(f"unknown option {word}", next_step=f"did you mean {known[near]}?")
            else:
                foreign.add(word)
        self.without_effect = tuple(sorted(foreign | (set(no_effect) & self.values.keys())))

    def security(self) -> Security:
        """How to log in.  Raises ConfigError, which shows no secret."""
        return Security.parse(self._security)

    def required(self, name: str) -> str:
        value = self.values.get(name, "").strip()
        if not value:
            raise ConfigError(
                f"option {name} is missing", next_step=f'say .option("{name}", "localhost:9092")'
            )
        return value

    def text(self, name: str, default: str) -> str:
        return self.values.get(name, default).strip()

    def exactly_one_of(self, names: tuple[str, ...]) -> str:
        given = [name for name in names if self.values.get(name, "").strip()]
        if len(given) != 1:
            said = f"{' and '.join(given)} are given" if given else "none is given"
            raise ConfigError(f"give exactly one of {', '.join(names)}: {said}")
        return given[0]

    def one_of(self, name: str, first: str, second: str) -> Any:
        value = self.text(name, first).lower()
        if value not in (first, second):
            raise ConfigError(f"{name}={value}: it is {first} or {second}")
        return value

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name, str(default)).lower()
        if value not in ("true", "false"):
            raise ConfigError(f"{name}={value}: it is true or false")
        return value == "true"

    def whole(self, name: str, *, least: int = 1, most: int = INT32, of: str = "") -> int | None:
        """Return a whole number in these bounds, or None when it was not given; `of` is its unit, for errors."""
        value = self.values.get(name)
        if value is None:
            return None
        text = value.strip()
        number = int(text) if text.isdecimal() and len(text) <= _DIGITS else -1
        if not least <= number <= most:
            raise ConfigError(f"{name}={value[:50]}: it is a whole number{of} from {least} to {most}")
        return number


def _nearest(word: str, known: Iterable[str]) -> str | None:
    """The known option that a word is nearly; what all settings of Kafka begin with does not count."""
    prefix = "kafka."
    same = {name.removeprefix(prefix): name for name in known if name.startswith(prefix)}
    if not word.startswith(prefix):
        same |= {name: name for name in known if not name.startswith(prefix)}
    near = difflib.get_close_matches(word.removeprefix(prefix), same, n=1, cutoff=_NEAR)
    return same[near[0]] if near else None
