"""Options of source and sink that are a job's own connections' too: how to log in."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.security.options import is_security_option

__all__ = ["security_in"]

_KAFKA = "kafka."


def security_in(options: Mapping[str, str]) -> dict[str, str]:
    """`security_in({"kafka.security.protocol": "SSL"})` -> {"security.protocol": "SSL"}, for a client."""
    settings = {name.lower(): value for name, value in options.items() if name.lower().startswith(_KAFKA)}
    named = {name.removeprefix(_KAFKA): value for name, value in settings.items()}
    return {name: value for name, value in named.items() if is_security_option(name)}
