"""The stories of this folder, word for word (those of raft run in tests/raft)."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.stories.consumer_story import ConsumerStory
from tests.stories.controller_story import ControllerStory
from tests.stories.group_story import GroupStory
from tests.stories.log_story import LogStory
from tests.stories.transcript import Transcript, stands_and_goes
from tests.stories.txn_story import TxnStory

TELLERS: dict[str, type[Transcript]] = {
    "consumer": ConsumerStory,
    "controller": ControllerStory,
    "group": GroupStory,
    "log": LogStory,
    "txn": TxnStory,
}
STORIES = [path for path in sorted(Path(__file__).parent.glob("*.txt")) if path.stem.split("_")[0] in TELLERS]


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_told(path: Path) -> None:
    stands, goes = stands_and_goes(path, TELLERS[path.stem.split("_")[0]]())
    assert goes == stands


def test_every_story_begins_with_what_it_teaches() -> None:
    assert len(STORIES) >= 20
    for path in STORIES:
        assert path.read_text().startswith("# "), path.name
