"""The command line inside a test, against a node: what it prints, and its exit code."""

from __future__ import annotations

import io
import json
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.cli.main import main
from barnabas.testing import Cluster


class Shell:
    """`shell("topics list")` -> exit code; `.out` and `.err` hold what it printed."""

    def __init__(self, kafka: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
        self.kafka = kafka
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, line: str) -> int:
        words = line.split()
        if "-m" not in words:  # the address of a metrics page instead
            words += ["--bootstrap-server", self.kafka.bootstrap]
        code = main(words)
        self.out, self.err = self._capsys.readouterr()
        return code

    def document(self, line: str) -> Any:
        assert self(f"{line} --json") == 0, self.err
        return json.loads(self.out)


def typed(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """What the next command reads from its input."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text)))
