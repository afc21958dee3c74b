"""What a broker's disks remember of its last life, and when they had better not."""

from __future__ import annotations

import json
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
    cut: bool = False,
    offline: bool = False,
    failed: list[StorageError] | None = None,
) -> Any:
    log = SimpleNamespace(damage=[], recovery=SimpleNamespace(cut_at=5 if cut else -1))
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


@pytest.mark.parametrize("trouble", [{"offline": True}, {"cut": True}])
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


# ------------------------------------------------------------------ a registration without an answer

FIRST, SECOND, THIRD = (Uuid(bytes([number]) * 16) for number in (1, 2, 3))


def both() -> list[Any]:
    return [directory("/a"), directory("/b")]


def begun(disk: MemoryDisk, incarnation: Uuid) -> PreviousEpoch:
    """A life after that of epoch 7, which is about to register."""
    PreviousEpoch(disk, both()).remember(7, synced=True)
    life = PreviousEpoch(disk, both())
    assert life.incarnation(incarnation) == incarnation
    return life


def test_a_life_that_had_no_answer_is_registered_again_as_the_same_one(disk: MemoryDisk) -> None:
    """The controller may have a registration of it, whose epoch this broker does not know."""
    begun(disk, FIRST)
    for fresh in (SECOND, THIRD):
        disk.crash("all")
        life = PreviousEpoch(disk, both())
        assert life.incarnation(fresh) == FIRST and life.epoch() == 7


def test_a_life_that_had_its_answer_is_over_when_it_ends(disk: MemoryDisk) -> None:
    begun(disk, FIRST).remember(8, synced=True)
    disk.crash("all")
    life = PreviousEpoch(disk, both())
    assert life.epoch() == 8 and life.incarnation(SECOND) == SECOND


@pytest.mark.parametrize("trouble", [{"offline": True}, {"cut": True}])
def test_a_disk_that_lacks_something_begins_a_new_life(disk: MemoryDisk, trouble: dict[str, Any]) -> None:
    begun(disk, FIRST)
    assert PreviousEpoch(disk, [directory("/a"), directory("/b", **trouble)]).incarnation(SECOND) == SECOND


def test_a_life_that_was_stopped_cleanly_since_then_is_over(disk: MemoryDisk) -> None:
    begun(disk, FIRST)
    assert (
        PreviousEpoch(disk, [directory("/a", clean=9), directory("/b", clean=9)]).incarnation(SECOND)
        == SECOND
    )


def test_a_new_disk_begins_a_new_life_and_notes_none(disk: MemoryDisk) -> None:
    begun(disk, FIRST)
    disk.remove(f"/b/{FILE}")
    for fresh in (SECOND, THIRD):
        assert PreviousEpoch(disk, both()).incarnation(fresh) == fresh


def test_a_life_that_could_not_be_noted_everywhere_begins_anew(disk: MemoryDisk) -> None:
    PreviousEpoch(disk, both()).remember(7, synced=True)
    disk.fail("sync", f"/b/{FILE}")
    assert PreviousEpoch(disk, both()).incarnation(FIRST) == FIRST
    disk.heal()
    disk.crash("all")
    life = PreviousEpoch(disk, both())
    assert life.epoch() == 7 and life.incarnation(SECOND) == SECOND


def test_a_disk_without_room_does_not_keep_a_life_that_had_its_answer(disk: MemoryDisk) -> None:
    """Else the next one would register as the life that was in sync, and go on leading in its leader epochs."""
    life = begun(disk, FIRST)
    disk.full_after(0)
    life.remember(8, synced=True)
    disk.heal()
    disk.crash("all")
    after = PreviousEpoch(disk, both())
    assert after.epoch() == -1 and after.incarnation(SECOND) == SECOND


@pytest.mark.parametrize("noted", ["", "x", 7, None, [], {}])
def test_nonsense_in_place_of_an_incarnation_is_none(disk: MemoryDisk, noted: object) -> None:
    names = [f"id of {path}" for path in ("/a", "/b")]
    said = {"version": 0, "brokerEpoch": 7, "directories": names, "registering": noted}
    for path in ("/a", "/b"):
        disk.put(f"{path}/{FILE}", json.dumps(said).encode())
    assert PreviousEpoch(disk, both()).incarnation(SECOND) == SECOND


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
