"""What a node tells its operator about what stands open: listeners without login, secrets that others can read.

It warns and goes on: where files are mounted for it, nobody may be able to change their mode.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial

from barnabas.config import Config
from barnabas.model import Endpoint
from barnabas.server.net.listener import Listener
from barnabas.server.observe import events
from barnabas.server.observe.metrics import Metrics
from barnabas.settings.secrets import holds_secret
from barnabas.settings.table_access import ANONYMOUS, super_users

__all__ = ["open_listeners", "watch_exposure"]


def watch_exposure(config: Config, listeners: Sequence[Listener], metrics: Metrics) -> None:
    """Warn of what stands open, and have a metric say it of each listener."""
    warn_of_readable_secrets(config)
    found = open_listeners(config, listeners)
    for listener in listeners:
        is_open = listener in found
        metrics.gauge(
            f"barnabas:type=Listener,name=OpenToNetwork,listener={listener.name}",
            "1: other machines reach it, and may do everything without a login",
            partial(float, is_open),
        )
        if is_open:
            events.emit(
                events.LISTENER_OPEN,
                listener=str(listener.endpoint),
                next="listen on 127.0.0.1, or give it a login and the node an authorizer: docs/security.md",
            )


def open_listeners(config: Config, listeners: Sequence[Listener]) -> list[Listener]:
    """Those where whoever reaches them from another machine may do everything without saying who it is."""
    supers = super_users(config.optional_str("super.users") or "")
    if config.optional_str("authorizer.class.name") and ANONYMOUS not in supers:
        return []
    return [one for one in listeners if config.is_open(one.name) and not one.is_loopback]


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
