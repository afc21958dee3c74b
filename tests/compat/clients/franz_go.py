"""franz-go, by a program of ours that is built once (`tests/compat/franz_go`).  Needs Go."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.compat.clients import RECORDS, VALUES, How

__all__ = ["FranzGo"]

SOURCE = Path(__file__).parents[1] / "franz_go"


class FranzGo:
    """It prints how many records it read in order, or its own error."""

    takes_tokens = True

    def __init__(self, folder: Path) -> None:
        if not shutil.which("go"):
            pytest.skip("franz-go needs Go")
        self._program = folder / "source" / "franz_go"
        shutil.copytree(SOURCE, self._program.parent)
        for step in (["go", "mod", "tidy"], ["go", "build", "-o", "franz_go", "."]):
            done = subprocess.run(
                step, cwd=self._program.parent, capture_output=True, text=True, timeout=300, check=False
            )
            if done.returncode:
                pytest.skip(f"franz-go could not be fetched or built: {done.stderr[-300:]}")

    def there_and_back(self, address: str, topic: str, how: How) -> list[bytes]:
        code, said = self._run(address, topic, how)
        assert code == 0, said
        return VALUES[: int(said)]

    def refused(self, address: str, how: How) -> str:
        code, said = self._run(address, "refused", how)
        assert code == 1, said
        return said

    def _run(self, address: str, topic: str, how: How) -> tuple[int, str]:
        mechanism = f"{how.mechanism}-TOKEN" if how.by_token else how.mechanism or "-"
        words = [how.ca, mechanism, how.user, how.secret, *([how.certificate] if how.certificate else [])]
        done = subprocess.run(
            [self._program, address, topic, str(RECORDS), *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout.strip()
