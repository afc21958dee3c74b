"""Compiles the loops over records (`barnabas.wire.walk`) where mypyc and a C compiler are; writes the SBOM.

Everything else about the package is in pyproject.toml.  Without a compiler, or with BARNABAS_COMPILE=no, the file
stays the Python that it is.  The same sources give the same wheel: `make wheel` proves it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tomllib
import uuid
from datetime import UTC, datetime
from importlib import metadata, util
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

COMPILED = "src/barnabas/wire/walk.py"
BUILT_FROM = Path("src/barnabas/wire/walk.built")
"""In a checkout: the source that the machine code beside it was compiled from.  The package compares, imported."""
EPOCH = "SOURCE_DATE_EPOCH"


def extensions() -> list[Extension]:
    """What is to be compiled; a failure to do so is no failure of the installation."""
    if BUILT_FROM.exists() and BUILT_FROM.read_bytes() != Path(COMPILED).read_bytes():
        for old in (*BUILT_FROM.parent.glob("walk*.so"), *BUILT_FROM.parent.glob("walk*.pyd"), BUILT_FROM):
            old.unlink()  # it is of no use any more, and stays where nothing can be compiled now
    if os.environ.get("BARNABAS_COMPILE") == "no":
        return []
    try:
        from mypyc.build import mypycify

        # (what it imports is checked elsewhere, where everything is installed that it imports)
        found: list[Extension] = mypycify(["--follow-imports=silent", COMPILED], opt_level="3")
    except (ImportError, SystemExit) as error:
        sys.stderr.write(f"barnabas.wire.walk stays interpreted: {error}\n")
        return []
    for extension in found:
        extension.optional = True
        extension.extra_compile_args += ["-g0", *same_paths()]
    return found


class BuildRemembered(build_ext):
    """Keeps the source beside machine code that is put into a checkout (`pip install -e .`)."""

    def copy_extensions_to_source(self) -> None:
        """Called once, when everything is compiled that can be."""
        super().copy_extensions_to_source()
        if all(Path(self.get_ext_fullpath(extension.name)).exists() for extension in self.extensions):
            shutil.copyfile(COMPILED, BUILT_FROM)


def same_paths() -> list[str]:
    """No path of this machine gets into the machine code."""
    if sys.platform == "win32":
        return []
    found = util.find_spec("mypyc")
    library = Path(found.origin).parent if found is not None and found.origin else Path()
    return [f"-ffile-prefix-map={path}={name}" for path, name in ((Path.cwd(), "."), (library, "mypyc"))]


def sbom(version: str, *, compiled: bool) -> dict[str, Any]:
    """CycloneDX: what is in the wheel, and what it asks for.  The same each time for the same sources."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    itself = f"pkg:pypi/barnabas@{version}"
    components = [_asked(text) for text in project["dependencies"]]
    if compiled:
        components.append(_contained("mypy", "mypyc's run-time library, compiled into barnabas.wire.walk"))
    said: dict[str, Any] = {
        "component": {
            "type": "library",
            "bom-ref": itself,
            "name": "barnabas",
            "version": version,
            "purl": itself,
            "licenses": [{"license": {"id": project["license"]}}],
        }
    }
    if EPOCH in os.environ:
        said["timestamp"] = datetime.fromtimestamp(int(os.environ[EPOCH]), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    found: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": said,
        "components": components,
        "dependencies": [{"ref": itself, "dependsOn": [one["bom-ref"] for one in components]}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(found, sort_keys=True))
    return {**found, "serialNumber": f"urn:uuid:{serial}"}


def _asked(requirement: str) -> dict[str, Any]:
    """A dependency: it is not in the wheel, so its version is what the wheel asks for."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    reference = f"pkg:pypi/{name}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "purl": reference,
        "scope": "required",
        "properties": [{"name": "barnabas:requirement", "value": requirement[len(name) :].strip()}],
    }


def _contained(name: str, what: str) -> dict[str, Any]:
    version = metadata.version(name)
    reference = f"pkg:pypi/{name}@{version}"
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
        "description": what,
        "licenses": [{"license": {"id": "MIT"}}],
        "properties": [{"name": "barnabas:contained", "value": "true"}],
    }


class WheelWithSbom(bdist_wheel):
    """Puts the SBOM where PEP 770 has it."""

    def write_wheelfile(self, wheelfile_base: str, *args: Any, **given: Any) -> None:
        """Called once, with the folder of the wheel's metadata."""
        super().write_wheelfile(wheelfile_base, *args, **given)
        folder = Path(wheelfile_base) / "sboms"
        folder.mkdir(exist_ok=True)
        content = sbom(self.distribution.get_version(), compiled=bool(self.distribution.ext_modules))
        (folder / "barnabas.cdx.json").write_text(json.dumps(content, indent=1, sort_keys=True) + "\n")


setup(ext_modules=extensions(), cmdclass={"bdist_wheel": WheelWithSbom, "build_ext": BuildRemembered})
