"""Property files that a person gives: read, and with the values that stand elsewhere (`${env:NAME}`, ...)."""

from __future__ import annotations

import os
from collections.abc import Mapping

from barnabas.errors import ConfigError, StorageError

__all__ = ["read_properties", "with_values"]

_LARGEST = 1 << 20
"""Nothing of a setting is larger, so a wrong path (a device, a log) ends the reading."""


def read_properties(path: str, next_step: str = "check the path") -> dict[str, str]:
    """The settings in a file, as they stand there.  Raises StorageError or ConfigError."""
    from barnabas.config import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            return dict(parse_properties(file.read()))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is no text file", next_step="give a file of NAME=VALUE lines") from error
    except OSError as error:
        raise StorageError(f"cannot read {path}: {error.strerror}", next_step=next_step) from error


def with_values(properties: Mapping[str, str]) -> dict[str, str]:
    """The same with the values that they refer to.  Raises ConfigError."""
    if not any("${" in text for text in properties.values()) and "config.providers" not in properties:
        return dict(properties)
    from barnabas.settings.providers import resolved

    return resolved(properties, _Machine())


class _Machine:
    """The environment and the files of this process."""

    def variable(self, name: str) -> str | None:
        return os.environ.get(name)

    def content(self, folder: str, name: str) -> str:
        path = os.path.join(folder, name)
        try:
            with open(path, "rb") as file:
                held = file.read(_LARGEST + 1)
            if len(held) > _LARGEST:
                raise ConfigError(f"{path} is larger than 1 MiB", next_step="check the path")
            return held.decode()
        except UnicodeDecodeError:
            raise ConfigError(f"{path} is no text file", next_step="check the path") from None
        except OSError as error:
            raise ConfigError(
                f"cannot read {path}: {error.strerror}",
                next_step="check the path, and that the user of this process may read it",
            ) from None

    def is_within(self, path: str, folders: tuple[str, ...]) -> bool:
        real = os.path.realpath(path)
        return any(
            real == (folder := os.path.realpath(one)) or real.startswith(f"{folder.rstrip('/')}/")
            for one in folders
        )
