"""A mirror's directory: which clusters and topics it is of, and its query's checkpoint.

DIR/mirror.json      both clusters; of each topic its name there, its id here and, once it is made, its id there
DIR/checkpoint       how far the query is (Spark's)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, TypeAlias

from barnabas.errors import BarnabasError, ConfigError
from barnabas.pipeline.archives.directory import check_nothing_else
from barnabas.pipeline.archives.index import write_whole

__all__ = ["MirrorDirectory", "Mirrored"]

Mirrored: TypeAlias = dict[str, str]
"""Ids of topics, as text, by name."""
_FORMAT = 1


class MirrorDirectory:
    """`MirrorDirectory("/data/mirror")`; nothing is opened when it is made."""

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self.checkpoint = os.path.join(self.path, "checkpoint")
        self._manifest = os.path.join(self.path, "mirror.json")
        self._said: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<MirrorDirectory {self.path}>"

    def claim(self, source: str, target: str, ids: Mirrored, names: Mapping[str, str]) -> Mirrored:
        """Make this the directory of this mirror, or see that it is.  Returns the ids of topics that it has made.

        Raises ConfigError where it is another's.
        """
        if source == target and any(name == there for name, there in names.items()):
            raise ConfigError(
                "source and target are one cluster, and a topic would be mirrored to itself",
                next_step="name another cluster, or other topics there: --rename OLD=NEW",
            )
        wanted = {"format": _FORMAT, "source": source, "target": target, "names": dict(names), "ids": ids}
        if os.path.exists(self._manifest):
            found = self._read()
            for word, value in wanted.items():
                if found.get(word) != value:
                    raise ConfigError(
                        f"{self.path} is of another mirror: its {word} is {found.get(word)}, not {value}",
                        next_step="name another directory; where a topic was deleted and made again, delete its "
                        "copy, too",
                    )
            self._said = found
            return dict(found["made"])
        if os.path.exists(self.path) and not os.path.isdir(self.path):
            raise ConfigError(
                f"{self.path} is a file: a mirror needs a directory", next_step="name a new one"
            )
        check_nothing_else(self.path)
        self._said = wanted | {"made": {}}
        return {}

    def begin(self, made: Mirrored) -> None:
        """Keep the ids of the topics that are written: before the first record is.  Raises ConfigError."""
        self._said["made"] = made
        try:
            os.makedirs(self.path, exist_ok=True)
            write_whole(self._manifest, json.dumps(self._said, indent=1, sort_keys=True))
        except OSError as error:
            raise ConfigError(
                f"{self.path} cannot be written: {error.strerror or error}",
                next_step="name a directory that you may write to, on a disk with room",
            ) from error

    def _read(self) -> dict[str, Any]:
        try:
            with open(self._manifest, encoding="utf-8") as file:
                said = json.load(file)
            if said["format"] != _FORMAT or not isinstance(said["made"], dict):
                raise ValueError(f"its format is {said['format']}")
            return dict(said)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise BarnabasError(
                f"{self._manifest} cannot be read: {error}", next_step="bring it back from a copy"
            ) from error
