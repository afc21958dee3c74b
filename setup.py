"""Compiles the loops over records (`barnabas.wire.walk`) where mypyc and a C compiler are at hand.

Everything else about the package is in pyproject.toml.  Without a compiler, or with BARNABAS_COMPILE=no, the file
stays the Python that it is.
"""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path

from setuptools import Extension, setup

COMPILED = "src/barnabas/wire/walk.py"
BUILT_FROM = Path("build/walk.sha256")
"""The digest of the source that was compiled last: a test compares."""


def extensions() -> list[Extension]:
    """What is to be compiled; a failure to do so is no failure of the installation."""
    if os.environ.get("BARNABAS_COMPILE") == "no":
        return []
    try:
        from mypyc.build import mypycify

        found: list[Extension] = mypycify([COMPILED], opt_level="3")
    except (ImportError, SystemExit) as error:
        sys.stderr.write(f"barnabas.wire.walk stays interpreted: {error}\n")
        return []
    for extension in found:
        extension.optional = True
    BUILT_FROM.parent.mkdir(exist_ok=True)
    BUILT_FROM.write_text(hashlib.sha256(Path(COMPILED).read_bytes()).hexdigest())
    return found


setup(ext_modules=extensions())
