"""`make wheel`: the wheel of the last commit, built twice, in two places and at two times: the same bytes.

What is not committed is not in it.  SOURCE_DATE_EPOCH is the time of the commit, so that anybody who builds the
same commit with the same compiler gets the same file.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

__all__ = ["build", "differences"]

ROOT = pathlib.Path(__file__).parent.parent


def exported(folder: pathlib.Path) -> pathlib.Path:
    """The files of the last commit."""
    folder.mkdir(parents=True)
    archive = folder.with_suffix(".tar")
    with archive.open("wb") as out:
        subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, stdout=out, check=True)
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    return folder


def build(tree: pathlib.Path, epoch: int, **environment: str) -> pathlib.Path:
    """The wheel of a folder, built with what this environment has."""
    for path in tree.rglob("*"):  # (whatever the umask was)
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    target = tree.with_name(tree.name + "-wheel")
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]
    given = {"SOURCE_DATE_EPOCH": str(epoch), "PIP_DISABLE_PIP_VERSION_CHECK": "1", **environment}
    old = os.umask(0o022)
    try:
        subprocess.run([*command, str(target), str(tree)], check=True, env={**os.environ, **given})
    finally:
        os.umask(old)
    (wheel,) = target.glob("*.whl")
    return wheel


def differences(one: pathlib.Path, other: pathlib.Path) -> list[str]:
    """What differs between two wheels: names, and files whose bytes or dates do."""
    first, second = zipfile.ZipFile(one), zipfile.ZipFile(other)
    names = set(first.namelist()) ^ set(second.namelist())
    found = [f"{name} is in one of them" for name in sorted(names)]
    for name in sorted(set(first.namelist()) & set(second.namelist())):
        a, b = first.getinfo(name), second.getinfo(name)
        if first.read(name) != second.read(name):
            found.append(f"{name} differs")
        elif (a.date_time, a.external_attr) != (b.date_time, b.external_attr):
            found.append(f"{name} has another date or mode")
    return found


def main() -> int:
    said = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, check=True)
    epoch = int(said.stdout)
    with tempfile.TemporaryDirectory() as folder:
        one = build(exported(pathlib.Path(folder) / "here"), epoch, TZ="UTC")
        time.sleep(2.1)  # (a date in a zip has a resolution of two seconds)
        other = build(exported(pathlib.Path(folder) / "elsewhere" / "deeper"), epoch, TZ="Asia/Kolkata")
        if one.read_bytes() != other.read_bytes():
            print("error: two builds of the same commit differ", *differences(one, other), sep="\n  ")
            return 1
        (ROOT / "dist").mkdir(exist_ok=True)
        wheel = pathlib.Path(shutil.copy(one, ROOT / "dist"))
    names = zipfile.ZipFile(wheel).namelist()
    compiled = any(name.endswith((".so", ".pyd")) for name in names)
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    print(f"dist/{wheel.name}: built twice, the same {wheel.stat().st_size:,} bytes")
    print(f"  sha256 {digest}")
    print(f"  SOURCE_DATE_EPOCH {epoch}; {'compiled' if compiled else 'interpreted'}; {len(names)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
