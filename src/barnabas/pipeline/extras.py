"""What to install for a part of Barnabas that needs more packages."""

from __future__ import annotations

import shlex
from importlib import metadata

__all__ = ["to_install"]


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
