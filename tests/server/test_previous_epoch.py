"""What a broker's disks remember of its last life, and when they had better not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.config import NO_FLUSH, Config
from barnabas.controller.image import RESOURCE_BROKER, RESOURCE_TOPIC, MetadataImage, Topic
from barnabas.errors import StorageError
from barnabas.model import Uuid
from barnabas.server.replication.previous_epoch import FILE, PreviousEpoch, everything_is_synced
from barnabas.sim.kernel.disk import MemoryDisk


def directory(
    path: str,
    *,
    clean: int = -1,
    lost: bool = False,
    offline: bool = False,
    failed: list[StorageError] | None = None,
) -> Any:
    log = SimpleNamespace(damage=[], recovery=SimpleNamespace(below_recovery_point=lost))
    return SimpleNamespace(
        path=path,
        directory_id=f"id of {path}",
        fail=lambda error: failed.append(error) if failed is not None else None,
        broker_epoch=clean,
        offline=StorageError("gone") if offline else None,
        logs={"t-0": log},
    )


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    for path in ("/a", "/b"):
        disk.put(f"{path}/meta.properties", b"")
    return disk


def test_after_a_crash_all_directories_know_the_epoch(disk: MemoryDisk) -> None:
    assert PreviousEpoch(disk, [directory("/a"), directory("/b")]).epoch() == -1
    PreviousEpoch(disk, [directory("/a"), directory("/b")]).remember(7, synced=True)
    disk.crash("all")
    assert PreviousEpoch(disk, [directory("/a"), directory("/b")]).epoch() == 7


@pytest.mark.parametrize("trouble", [{"offline": True}, {"lost": True}])
def test_a_directory_that_lacks_something_spoils_it(disk: MemoryDisk, trouble: dict[str, bool]) -> None:
    PreviousEpoch(disk, [directory("/a"), directory("/b")]).remember(7, synced=True)
    assert PreviousEpoch(disk, [directory("/a"), directory("/b", **trouble)]).epoch() == -1


def test_a_new_disk_and_an_older_copy_do_not_know_it(disk: MemoryDisk) -> None:
    PreviousEpoch(disk, [directory("/a")]).remember(7, synced=True)
    assert PreviousEpoch(disk, [directory("/a"), directory("/b")]).epoch() == -1
    PreviousEpoch(disk, [directory("/b")]).remember(5, synced=True)
    assert (
        PreviousEpoch(disk, [directory("/a"), directory("/b")]).epoch() == 5
    )  # not the one that the controller knows


def test_a_restored_copy_of_this_life_is_told_by_the_operator_who_removes_the_file(disk: MemoryDisk) -> None:
    """docs/disks.md, "A directory restored from a copy": nothing else on that disk tells."""
    PreviousEpoch(disk, [directory("/a"), directory("/b")]).remember(7, synced=True)
    disk.remove(f"/b/{FILE}")
    assert PreviousEpoch(disk, [directory("/a"), directory("/b")]).epoch() == -1


def test_an_orderly_stop_is_known_by_its_marker(disk: MemoryDisk) -> None:
    assert PreviousEpoch(disk, [directory("/a", clean=9)]).epoch() == 9


def test_once_something_was_not_synced_this_life_is_not_remembered(disk: MemoryDisk) -> None:
    life = PreviousEpoch(disk, [directory("/a")])
    life.remember(7, synced=True)
    life.remember(7, synced=False)
    life.remember(8, synced=True)
    assert PreviousEpoch(disk, [directory("/a")]).epoch() == -1


@pytest.mark.parametrize("clean", [-1, 7])
def test_a_directory_that_is_not_used_any_more_is_missed(disk: MemoryDisk, clean: int) -> None:
    PreviousEpoch(disk, [directory("/a"), directory("/b")]).remember(7, synced=True)
    assert PreviousEpoch(disk, [directory("/a", clean=clean)]).epoch() == -1
    both = [directory("/a", clean=clean), directory("/b", clean=clean)]
    assert PreviousEpoch(disk, both).epoch() == 7
    PreviousEpoch(disk, [directory("/a")]).remember(8, synced=True)
    assert PreviousEpoch(disk, [directory("/a")]).epoch() == 8


def test_a_disk_without_room_does_not_keep_the_epoch_of_a_life_that_is_spoilt(disk: MemoryDisk) -> None:
    life = PreviousEpoch(disk, [directory("/a")])
    life.remember(7, synced=True)
    disk.full_after(0)
    life.remember(7, synced=False)
    disk.heal()
    disk.crash("all")
    assert PreviousEpoch(disk, [directory("/a")]).epoch() == -1


def test_a_disk_on_which_nothing_can_be_changed_is_not_served_unsynced(disk: MemoryDisk) -> None:
    failed: list[StorageError] = []
    life = PreviousEpoch(disk, [directory("/a", failed=failed)])
    life.remember(7, synced=True)
    disk.fail("sync", FILE)
    disk.fail("remove", FILE)
    life.remember(7, synced=False)
    assert len(failed) == 1
    assert not failed[0].full


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"brokerEpoch":"7"}', b"7"])
def test_nonsense_in_the_file_is_no_epoch(disk: MemoryDisk, content: bytes) -> None:
    disk.put(f"/a/{FILE}", content)
    assert PreviousEpoch(disk, [directory("/a")]).epoch() == -1


def test_a_disk_that_cannot_be_written_keeps_an_older_epoch(disk: MemoryDisk) -> None:
    PreviousEpoch(disk, [directory("/a")]).remember(7, synced=True)
    disk.fail("sync", FILE)
    PreviousEpoch(disk, [directory("/a")]).remember(8, synced=True)
    disk.heal()
    assert PreviousEpoch(disk, [directory("/a")]).epoch() == 7


def test_everything_is_synced_unless_the_node_or_a_topic_says_otherwise() -> None:
    config, image = Config.load({}), MetadataImage("cluster")
    image.topics_by_name["t"] = Topic("t", Uuid(b"0123456789abcdef"))
    assert everything_is_synced(config, image, 1)
    assert not everything_is_synced(Config.load({"log.flush.interval.messages": str(NO_FLUSH)}), image, 1)
    configs = cast("dict[Any, dict[str, str]]", image.configs)
    configs[RESOURCE_TOPIC, "t"] = {"flush.messages": "1"}
    assert everything_is_synced(config, image, 1)
    configs[RESOURCE_TOPIC, "t"] = {"flush.messages": str(NO_FLUSH)}
    assert not everything_is_synced(config, image, 1)
    configs[RESOURCE_TOPIC, "t"] = {"flush.messages": "not a number"}
    assert not everything_is_synced(config, image, 1)
    del configs[RESOURCE_TOPIC, "t"]
    configs[RESOURCE_BROKER, "1"] = {"log.flush.interval.messages": str(NO_FLUSH)}
    assert not everything_is_synced(config, image, 1)
    assert everything_is_synced(config, image, 2)
    configs[RESOURCE_BROKER, "1"] = {"log.flush.interval.messages": "1"}
    unsynced = Config.load({"log.flush.interval.messages": str(NO_FLUSH)})
    assert not everything_is_synced(unsynced, image, 1)  # that change may be refused
