"""A process runs a node: what ends it, and what only ends the node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from barnabas.config import Config
from barnabas.errors import ShortFileError, StorageError
from barnabas.server.node import run as running
from barnabas.server.node.run import run


class _Fails:
    """A node that fails as soon as it runs, each time with the next of these errors."""

    def __init__(self, errors: list[Exception]) -> None:
        self.errors = errors
        self.starts = 0

    def __call__(self, config: Config, *, format_new: bool | None) -> Any:
        self.starts += 1
        self.failed, self.failure, self.broker = asyncio.Event(), self.errors[self.starts - 1], None
        self.failed.set()
        return self

    async def start(self) -> None:
        pass

    async def stop(self) -> None:
        pass


CUT = ShortFileError("/data/__cluster_metadata-0/0.log", 100)


@pytest.mark.parametrize(
    ("errors", "starts"),
    [([CUT, StorageError("the disk is dead")], 2), ([CUT, CUT], 2), ([StorageError("the disk is dead")], 1)],
    ids=["cut, then another", "cut twice in a minute", "another"],
)
def test_a_node_whose_metadata_log_was_cut_starts_again_once_in_a_while(
    errors: list[Exception], starts: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = _Fails(errors)
    monkeypatch.setattr(running, "ServerNode", node)
    config = Config.load(
        {"log.dirs": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0"}
    )
    assert run(config) == 1
    assert node.starts == starts
