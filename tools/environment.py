"""Make `.venv` and install one group of packages into it, with a bar: `environment.py VENV GROUP` (see GROUPS).

Standard library only (it runs before anything is installed).  Versions and hashes come from `locks/`: a file that
is not the one that was locked is refused.  Where an index has files of its own (wheels that somebody built),
BARNABAS_UNCHECKED=1 installs by the versions of constraints.txt alone.
PySpark is a source package of 450 MB, so the wait deserves a bar.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
import time
import venv

GROUPS = {"base": "-e .", "dev": "-e .[dev]", "spark": "-e .[spark,demo]", "connect": "-e .[connect]"}
PIP = "pip>=24.1,<27"  # the first whose --progress-bar=raw can be read by a program
UNCHECKED = os.environ.get("BARNABAS_UNCHECKED") == "1"
HASH_ADVICE = (
    "  next: an index that has other files than those that were locked is wrong, or builds its own; if you\n"
    "        trust it, BARNABAS_UNCHECKED=1 make venv installs by version alone"
)


class Bar:
    """One line that is drawn again and again on a terminal, and now and then elsewhere."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.start = time.monotonic()
        self.tty = sys.stdout.isatty()
        self.last = 0.0

    def draw(self, step: str, done: int = 0, total: int = 0, *, force: bool = False) -> None:
        now = time.monotonic()
        if not force and now - self.last < (0.1 if self.tty else 10.0):
            return
        self.last = now
        part = done / total if total else 0.0
        amount = f"{done / 1e6:6.1f} of {total / 1e6:.1f} MB" if total else ""
        line = f"{self.what} [{'#' * round(part * 24):<24}] {now - self.start:4.0f} s  {step} {amount}"
        print(f"\r{line[:110]:<110}" if self.tty else line, end="" if self.tty else "\n", flush=True)

    def end(self, words: str) -> None:
        seconds = time.monotonic() - self.start
        print(f"{chr(13) if self.tty else ''}{f'{self.what}: {words} ({seconds:.0f} s)':<110}", flush=True)


def pip(python: str, bar: Bar, *arguments: str) -> None:
    """Run pip, turning what it says into a bar; on failure show the end of it and stop."""
    command = [python, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    said: list[str] = []
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        step = "resolving"
        bar.draw(step, force=True)
        for line in process.stdout:
            if match := re.match(r"Progress (\d+) of (\d+)", line):
                bar.draw(step, int(match[1]), int(match[2]))
                continue
            said.append(line)
            if match := re.match(r"\s*(Collecting|Downloading|Building wheels?|Installing) (.{0,50})", line):
                step = f"{match[1].lower()} {match[2].split(' (')[0].strip()}"
            bar.draw(step, force=not bar.tty and "pyspark" in line and "ing wheel" in line)
    if process.returncode:
        sys.stdout.write("\n" + "".join(said[-25:]))
        sys.exit(
            f"error: pip could not install {arguments[-1]}\n"
            "  next: read the lines above; a package index must be reachable (PIP_INDEX_URL chooses another)"
            if not any("hash" in line.lower() for line in said[-25:])
            else f"error: pip refuses a file of {arguments[-1]}: its hash is another one\n{HASH_ADVICE}"
        )


def install(python: str, bar: Bar, group: str) -> None:
    """One group: what it needs by its lock, then, with the base, this package itself."""
    progress = ("--progress-bar", "raw")
    if UNCHECKED:
        if group == "base":
            pip(python, bar, "-q", PIP)
        pip(python, bar, *progress, "-c", "constraints.txt", *GROUPS[group].split())
        return
    if group == "base":
        pip(python, bar, "-q", "--require-hashes", "-r", "locks/pip.txt")
    # What is built from source (PySpark) is built with the setuptools of the lock, not with what is newest today.
    pip(python, bar, *progress, "--require-hashes", "--no-build-isolation", "-r", f"locks/{group}.txt")
    if group == "base":
        pip(python, bar, *progress, "--no-deps", "--no-build-isolation", "-e", ".")


def main() -> int:
    folder, group = pathlib.Path(sys.argv[1]), sys.argv[2]
    found = sys.version.split()[0]
    if sys.version_info < (3, 11):  # noqa: UP036 - this script is what an older Python runs first
        sys.exit(
            f"error: Barnabas needs Python 3.11 or newer, this is {found} ({sys.executable})\n"
            "  next: run make PYTHON=python3.12 (or wherever a newer one is)"
        )
    # Without .pyc files every start of a node costs 0.3 s more, whatever the caller's shell has set.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    python = str(folder / "bin" / "python")
    if not os.path.exists(python):
        print(f"making {folder} with Python {sys.version.split()[0]}", flush=True)
        try:
            venv.create(folder, with_pip=True)
        except (OSError, subprocess.CalledProcessError) as error:
            sys.exit(
                f"error: no virtual environment could be made in {folder}: {error}\n"
                "  next: install Python's venv module (on Debian: apt-get install python3-venv)"
            )
    bar = Bar(f"installing {group:<5}")
    if group != "base":
        os.environ["BARNABAS_COMPILE"] = "no"  # it was, with the base
    install(python, bar, group)
    bar.end("done")
    (folder / f".{group}").touch()
    return 0


if __name__ == "__main__":
    sys.exit(main())
