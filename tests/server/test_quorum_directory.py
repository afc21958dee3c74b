"""Directories of earlier releases open, with everything in them."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from tests.patience import PATIENCE_S

from barnabas.config import Config
from barnabas.server.node.process import ServerNode

RELEASES = sorted((Path(__file__).parents[1] / "fixtures" / "quorum").glob("directory-*"))


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.name)
def test_a_directory_that_a_release_left_opens_with_topics_settings_records_and_membership(
    release: Path, tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(release, data)
    config = Config.load(
        {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
            "log.dirs": str(data),
        }
    )

    async def story() -> None:
        async with asyncio.timeout(PATIENCE_S), ServerNode(config) as node:
            quorum, image = node.quorum, node.quorum.image
            assert sorted(image.topics_by_name) == ["flights-0", "flights-1", "flights-2", "last"]
            assert image.topic_config("last") == {"retention.ms": "86400000"}
            assert quorum.kraft_version == 1 and quorum.voters.ids == (1,) and quorum.epoch > 1
            assert image.controllers.keys() == {1, 2}
            removed = [
                name for name in image.cluster_config() if name.startswith("barnabas.quorum.removed.2-")
            ]
            assert removed, "an operator removed controller 2: that is not forgotten"
            ends = {(p.topic, p.index): p.log.log_end_offset for p in node.broker.partitions()}
            assert ends[("last", 0)] == 10

    asyncio.run(story())


def test_the_first_release_left_one() -> None:
    assert "directory-0.1.0" in [release.name for release in RELEASES]
