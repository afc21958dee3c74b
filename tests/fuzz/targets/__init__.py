"""The doors that bytes come in by, one module for those that belong together; imported when they are needed."""

from __future__ import annotations

import importlib

from tests.fuzz.engine.target import Target

__all__ = ["NAMES", "target_of"]

_MODULES: dict[str, str] = {
    "stranger": "frames",
    "user": "frames",
    "sasl": "sasl",
    "tokens": "tokens",
    "names": "names",
    "texts": "texts",
    "acls": "acls",
    "messages": "messages",
    "batches": "batches",
    "segments": "segments",
    "files": "files",
    "answers": "answers",
    "tls": "doors",
    "http": "doors",
    "console": "console",
    "patterns": "pushed",
    "telemetry": "pushed",
    "members": "pushed",
}
"""Target -> the module that has it."""

NAMES = tuple(_MODULES)


def target_of(name: str) -> Target:
    """The target of that name."""
    module = importlib.import_module(f"tests.fuzz.targets.{_MODULES[name]}")
    (found,) = [target for target in module.TARGETS if target.name == name]
    return found
