"""Barnabas at another commit, as a peer of its own: `with checkout("HEAD~3") as earlier: ...`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.peers import ROOT, Barnabas
from bench.trio import BarnabasTrio

__all__ = ["Earlier", "EarlierTrio", "checkout", "sources"]


class Earlier(Barnabas):
    """A node of the sources in another directory."""

    source = Path()

    @property
    def environment(self) -> dict[str, str]:
        return sources(self.source)


class EarlierTrio(BarnabasTrio):
    """Three nodes of the sources in another directory."""

    @property
    def environment(self) -> dict[str, str]:
        return sources(Earlier.source)


def sources(root: Path) -> dict[str, str]:
    """Return the environment in which `barnabas` is that of a checkout, and `bench` is ours."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join((str(root / "src"), str(ROOT)))}


@contextmanager
def checkout(commit: str | None) -> Iterator[Path | None]:
    """Make a worktree of that commit, compiled as this one is, in which `Earlier` and `EarlierTrio` run."""
    if commit is None:
        yield None
        return
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory(prefix="barnabas-earlier-") as folder:
        place = Path(folder) / "earlier"
        subprocess.run([*git, "add", "-q", "--detach", str(place), commit], check=True)
        try:
            build = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
            subprocess.run(build, cwd=place, check=True, stdout=subprocess.DEVNULL)
            Earlier.source = place
            Earlier.name = EarlierTrio.name = f"Barnabas at {commit[:8]}"
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=False)
