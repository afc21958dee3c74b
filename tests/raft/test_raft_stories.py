"""The stories of tests/stories/raft_*.txt, word for word."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from raft_story import rewrite_or_read

STORIES = sorted((Path(__file__).parents[1] / "stories").glob("raft_*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_told(path: Path) -> None:
    stands, goes = rewrite_or_read(path, bool(os.environ.get("BARNABAS_REWRITE")))
    assert goes == stands


def test_there_are_stories() -> None:
    assert len(STORIES) >= 8
