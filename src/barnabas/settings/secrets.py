"""Which settings have values that nobody may see."""

from __future__ import annotations

from barnabas.settings.setting import SETTINGS

__all__ = ["holds_secret"]

_ENDINGS = ("password", ".secret", ".secret.key", "sasl.jaas.config")


def holds_secret(name: str) -> bool:
    """`holds_secret("listener.name.x.plain.sasl.jaas.config")` -> True: also for names that we do not know."""
    if name.endswith(_ENDINGS):
        return True
    row = SETTINGS.get(name)
    if row is None and name.startswith("listener.name."):
        row = SETTINGS.get(name.split(".", 3)[-1])
    return row is not None and row.kind == "password"
