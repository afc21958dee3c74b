"""The stories of tests/stories/raft_*.txt, word for word."""

from __future__ import annotations

from pathlib import Path

import pytest
from raft_story import RaftStory
from tests.stories.transcript import stands_and_goes

STORIES = sorted((Path(__file__).parents[1] / "stories").glob("raft_*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_told(path: Path) -> None:
    stands, goes = stands_and_goes(path, RaftStory())
    assert goes == stands


def test_every_story_begins_with_what_it_teaches() -> None:
    assert len(STORIES) >= 25
    for path in STORIES:
        assert path.read_text().startswith("# "), path.name
