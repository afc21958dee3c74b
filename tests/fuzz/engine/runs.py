"""Runs of one target: our own mutator in this process, or atheris (guided by coverage) in one of its own."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.engine.corpus import kept, working, write_working
from tests.fuzz.engine.havoc import mutated
from tests.fuzz.engine.target import Finding, Judge, Target

__all__ = ["HAS_ATHERIS", "Run", "guided", "plain", "replay"]

HAS_ATHERIS = importlib.util.find_spec("atheris") is not None
MOST_FINDINGS = 40
_STATUS = re.compile(r"#(\d+)\s.*cov: (\d+) ft: \d+ corp: (\d+)/")


@dataclass
class Run:
    """What came of it.  `coverage` is counted in edges by atheris, else in different things seen."""

    target: str
    how: str
    cpu_s: float = 0.0
    runs: int = 0
    coverage: int = 0
    corpus: int = 0
    findings: list[Finding] = field(default_factory=list)

    def found(self, finding: Finding) -> None:
        """Add it, unless one of its kind is there."""
        if finding.key not in [one.key for one in self.findings] and len(self.findings) < MOST_FINDINGS:
            self.findings.append(finding)

    def add(self, other: Run) -> None:
        """Take over what another run of the target came to."""
        for finding in other.findings:
            self.found(finding)
        self.how, self.cpu_s, self.runs = "short", self.cpu_s + other.cpu_s, self.runs + other.runs
        self.coverage, self.corpus = max(self.coverage, other.coverage), max(self.corpus, other.corpus)


def replay(judge: Judge) -> Run:
    """Every seed and every kept input, once."""
    name = judge.target.name
    run, began, seen = Run(name, "replay"), time.process_time(), set()
    for data in [*judge.target.seeds(), *kept(name)]:
        finding, what = judge.look(data)
        seen.add(what)
        run.runs += 1
        if finding is not None:
            run.found(finding)
    run.corpus, run.coverage, run.cpu_s = run.runs, len(seen), time.process_time() - began
    return run


def plain(judge: Judge, seconds: float, seed: int, most: int = 1 << 60) -> Run:
    """Our own mutator for so much processor time; what shows something new is mutated further."""
    target = judge.target
    run, rng = Run(target.name, "plain"), random.Random(f"{target.name}:{seed}")
    corpus = [*target.seeds(), *kept(target.name)] or [b""]
    seen = {judge.look(data)[1] for data in corpus}
    began = time.process_time()
    while time.process_time() - began < seconds and run.runs < most:
        data = mutated(rng, corpus, target.words, target.longest)
        finding, what = judge.look(data)
        run.runs += 1
        if finding is not None:
            run.found(finding)
        if what not in seen:
            seen.add(what)
            corpus.append(data)
    run.corpus, run.coverage, run.cpu_s = len(corpus), len(seen), time.process_time() - began
    return run


def guided(target: Target, seconds: float, seed: int, say: Callable[[str], object]) -> Run:
    """atheris for so much processor time, on from what earlier runs on this machine kept.

    Its process instruments our code, so it is slow: what it finds slow is judged again here, without.
    """
    folder = write_working(target.name, [*target.seeds(), *kept(target.name)])
    report = working("reports") / f"{target.name}.{os.getpid()}"
    began = os.times()
    command = [sys.executable, "-m", "tests.fuzz.engine.guided", target.name, str(seconds), str(seed)]
    with subprocess.Popen(
        [*command, str(folder), str(report)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stderr is not None
        status, last = (0, 0, 0), []
        for line in process.stderr:
            last = [*last[-15:], line]
            if match := _STATUS.match(line):
                status = tuple(map(int, match.groups()))  # type: ignore[assignment]
                say(line.strip())
    ended = os.times()
    cpu = ended.children_user + ended.children_system - began.children_user - began.children_system
    run = Run(target.name, "guided", cpu, status[0], status[1], status[2])
    if not report.exists():
        text = f"the process ended with {process.returncode}\n" + "".join(last)
        run.found(Finding(target.name, "exception", "ended", text, b""))
        return run
    said = json.loads(report.read_text())
    report.unlink()
    run.runs = said["runs"]
    _judge_again(target, run, said["findings"])
    return run


def _judge_again(target: Target, run: Run, findings: list[list[str]]) -> None:
    if not findings:
        return
    judge = Judge(target)
    for kind, key, text, data in findings:
        again, _ = judge.look(bytes.fromhex(data))
        if again is not None:
            run.found(again)
        elif kind == "exception":
            run.found(Finding(target.name, "unstable", key, text, bytes.fromhex(data)))


def save(finding: Finding, folder: Path) -> Path:
    """Write the input of a finding into a file, for `--input`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{finding.target}-{abs(hash(finding.data)):x}"[:60]
    path.write_bytes(finding.data)
    return path
