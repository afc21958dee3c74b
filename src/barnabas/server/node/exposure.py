"""What a node tells its operator about what stands open: secrets that other users of the machine can read.

It warns and goes on: where files are mounted for it, nobody may be able to change their mode.
"""

from __future__ import annotations

import os
import stat

from barnabas.config import Config
from barnabas.model import Endpoint
from barnabas.server.observe import events
from barnabas.settings.secrets import holds_secret

__all__ = ["warn_of_readable_secrets"]


def warn_of_readable_secrets(config: Config) -> None:
    """Say which files with keys or passwords every user of this machine can read."""
    names = {config[name] for name in _KEYS}
    names |= {config.at(endpoint.listener)[name] for endpoint in _listeners(config) for name in _KEYS}
    if config.file is not None and any(holds_secret(name) for name in config.given):
        names.add(config.file)
    for name in sorted(str(name) for name in names if name):
        if _is_readable_by_all(name):
            events.emit(events.SECRET_READABLE, file=name, next=f"chmod o= {name}")


_KEYS = ("ssl.keystore.location",)


def _listeners(config: Config) -> tuple[Endpoint, ...]:
    return (*config.listeners, *config.controller_listeners)


def _is_readable_by_all(path: str) -> bool:
    try:
        return bool(os.stat(path).st_mode & stat.S_IROTH)
    except OSError:
        return False  # who reads it says why it cannot
