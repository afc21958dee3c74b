"""Packages that a part of Barnabas needs, and the line that installs them."""

from __future__ import annotations

import shlex
from importlib import import_module, metadata
from types import ModuleType

from barnabas.errors import ConfigError

__all__ = ["library", "to_install"]


def library(name: str, *, of: str, extra: str) -> ModuleType:
    """`library("fastavro", of="Avro", extra="spark")` -> the package; a ConfigError says how to install it."""
    try:
        return import_module(name)
    except ImportError:
        raise ConfigError(f"{of} needs {name}", next_step=to_install(extra)) from None


def to_install(*extras: str) -> str:
    """`to_install("spark")` -> "pip install 'pyspark>=4.3,<4.4' ...": the packages, by the list of this version.

    Barnabas itself need not be in any registry for that.
    """
    try:
        wanted = metadata.requires("barnabas") or []
    except metadata.PackageNotFoundError:
        wanted = []
    found = [
        requirement.partition(";")[0].strip()
        for requirement in wanted
        if any(f'extra == "{extra}"' in requirement.replace("'", '"') for extra in extras)
    ]
    return (
        f"pip install {' '.join(shlex.quote(one) for one in dict.fromkeys(found))}" if found else "make venv"
    )
