"""Values that stand elsewhere: `${env:NAME}`, `${file:/path:key}`, `${directory:/path:file}`, as in Apache Kafka.

They are resolved in files that a person gives to this process, never in what comes over the network: whoever may
change a setting could otherwise read any file of a node (CVE-2024-31141).  What was found is not resolved again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from barnabas.errors import ConfigError
from barnabas.settings.text import parse_properties

__all__ = ["Sources", "resolved"]

_REFERENCE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
_PREFIX = "config.providers"
_CLASS = "org.apache.kafka.common.config.provider."
_CLASSES = {
    f"{_CLASS}EnvVarConfigProvider": "env",
    f"{_CLASS}FileConfigProvider": "file",
    f"{_CLASS}DirectoryConfigProvider": "directory",
}


class Sources(Protocol):
    """Where values stand."""

    def variable(self, name: str) -> str | None:
        """A variable of the environment; None: it is not set."""
        ...

    def content(self, folder: str, name: str) -> str:
        """A file of a folder ("": `name` is a whole path).  Raises ConfigError where it cannot be read."""
        ...

    def is_within(self, path: str, folders: tuple[str, ...]) -> bool:
        """Whether a path leads into one of these folders, or names one of these files."""
        ...


class _Provider(NamedTuple):
    kind: str
    allowed_paths: tuple[str, ...] = ()
    allowed_names: str = ""


def resolved(properties: Mapping[str, str], sources: Sources) -> dict[str, str]:
    """The properties with the values that they refer to.  Raises ConfigError, which shows none of them."""
    providers = _declared(properties)
    found = {}
    for name, text in properties.items():
        if name == _PREFIX or name.startswith(f"{_PREFIX}."):
            continue
        found[name] = text
        if "${" in text:
            found[name] = _REFERENCE.sub(_replacing(name, providers, sources), text)
    return found


def _declared(properties: Mapping[str, str]) -> dict[str, _Provider]:
    """Those that are always there, and those of `config.providers`."""
    providers = {kind: _Provider(kind) for kind in _CLASSES.values()}
    for alias in filter(None, (word.strip() for word in properties.get(_PREFIX, "").split(","))):
        prefix = f"{_PREFIX}.{alias}."
        kind = _CLASSES.get(properties.get(f"{prefix}class", "").strip())
        if kind is None:
            raise ConfigError(
                f"{prefix}class names none of the providers that are here, and no class is loaded",
                next_step=f"write one of {', '.join(_CLASSES)}",
            )
        paths = properties.get(f"{prefix}param.allowed.paths", "").split(",")
        pattern = properties.get(f"{prefix}param.allowlist.pattern", "").strip()
        try:
            re.compile(pattern)
        except re.error as error:
            raise ConfigError(f"{prefix}param.allowlist.pattern is no pattern: {error}") from None
        providers[alias] = _Provider(kind, tuple(path.strip() for path in paths if path.strip()), pattern)
    return providers


def _replacing(
    setting: str, providers: Mapping[str, _Provider], sources: Sources
) -> Callable[[re.Match[str]], str]:
    def value_of(match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        if provider is None:
            return match[0]  # as in Kafka: no provider of that name, so it is a text like any other
        try:
            return _value(provider, match[2] or "", match[3], sources)
        except ConfigError as error:
            raise ConfigError(f"{setting}: {match[0]}: {error.message}", next_step=error.next_step) from None

    return value_of


def _value(provider: _Provider, path: str, key: str, sources: Sources) -> str:
    if not key:
        raise ConfigError(
            "it names nothing",
            next_step="write ${env:NAME}, ${file:/path:key} or ${directory:/path:file}",
        )
    if provider.kind == "env":
        if provider.allowed_names and re.fullmatch(provider.allowed_names, key) is None:
            raise ConfigError(f"{key} does not fit allowlist.pattern", next_step="change either of them")
        value = sources.variable(key)
        if value is None:
            raise ConfigError(
                f"the environment has no {key}", next_step=f"export {key} before the process is started"
            )
        return value
    if not path:
        raise ConfigError(
            "it names no path",
            next_step=f"write ${{{provider.kind}:/path:{key}}}, with the path before the key",
        )
    if provider.kind == "directory" and ("/" in key or key in (".", "..")):
        raise ConfigError(f"{key} is no file of that directory", next_step="name a file without its path")
    whole = path if provider.kind == "file" else f"{path}/{key}"
    if provider.allowed_paths and not sources.is_within(whole, provider.allowed_paths):
        raise ConfigError(f"{whole} is not within allowed.paths", next_step="change either of them")
    if provider.kind == "directory":
        return sources.content(path, key).removesuffix("\n").removesuffix("\r")
    held = parse_properties(sources.content("", path))
    if key not in held:
        raise ConfigError(
            f"{path} has no {key}", next_step=f"add a line {key}=... to it, or correct the name"
        )
    return held[key]
