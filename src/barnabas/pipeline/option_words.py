"""What was given to `.option()`, read word by word: a misspelt one is an error that names the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from barnabas.errors import ConfigError

__all__ = ["OptionWords"]


class OptionWords:
    """The options as given, read one by one; unknown ones are an error at once.

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
        refused = {name.lower(): why for name, why in refused.items()}
        self.values: dict[str, str] = {}
        for word, value in given.items():
            if why := refused.get(word.lower()):
                raise ConfigError(f"option {word} cannot be set", next_step=why)
            name = known.get(word.lower())
            if name is None:
                near = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
                hint = f"did you mean {known[near[0]]}?" if near else "see `barnabas pipeline options`"
                raise ConfigError(f"unknown option {word}: {hint}", next_step=hint)
            self.values[name] = value
        self.without_effect = tuple(sorted(set(no_effect) & self.values.keys()))

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

    def whole(self, name: str) -> int | None:
        """A positive whole number, or None when it was not given."""
        value = self.values.get(name)
        if value is None:
            return None
        if not value.strip().isdigit() or int(value) == 0:
            raise ConfigError(f"{name}={value}: it is a whole number above 0")
        return int(value)
