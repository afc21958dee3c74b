"""Seeds whose disks lie: what is promised of them, and that the harness itself sees what it must."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from barnabas.sim.cluster.lying.faults import LYING
from barnabas.sim.cluster.lying.lying_run import LyingRun, run_lying_seed
from barnabas.sim.cluster.lying.rot import Rot
from barnabas.sim.kernel.lies import lie

SEEDS = (4, 9, 11, 15, 17)
"""Between them each kind of lie, in logs and beside them."""


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_acknowledged_is_lost_and_all_is_whole_again(seed: int) -> None:
    report = run_lying_seed(seed)
    assert report.ok, report.error
    assert report.counts["acknowledged"] > 0


def test_a_seed_is_a_history_and_leaves_that_of_the_usual_seed_alone() -> None:
    one, two = run_lying_seed(4), run_lying_seed(4)
    assert one.digest == two.digest and one.faults == two.faults
    assert {fault.name for fault in one.faults} & {kind.name for kind in LYING}


def running(seed: int = 4) -> LyingRun:
    """A cluster that has lived for a moment without faults, and of which nobody is away."""
    run = LyingRun(seed)
    run.enabled = []
    run.lasts = 4.0
    run._do_without_one = lambda: None  # type: ignore[method-assign]
    run.run()
    return run


def test_a_lie_is_seen_until_it_is_healed() -> None:
    run = running()
    world, rot = run.world, run.rot
    node = next(node for node in world.nodes.values() if rot.may_begin(node))
    assert rot.wanting(node) is None
    path = max((path for path in rot.files(node) if path.endswith(".log")), key=node.disk.size)
    assert lie(node.disk, path, random.Random(1), kind="bit")
    rot.begins(node)
    assert "wrong CRC" in (rot.wanting(node) or "") and path in (run.wanting() or "")
    assert not any(rot.may_begin(other) for other in world.nodes.values()), "one disk at a time"
    assert rot.excuses(node.id) and rot.served == 1
    assert not rot.excuses(next(other for other in world.nodes if other != node.id))
    world.run(90.0, lambda: not node.rotten)
    assert not node.rotten and rot.wanting(node) is None
    world.close()


def test_damage_of_deleted_records_counts_until_a_checkpoint_says_that_they_are_deleted() -> None:
    run = running()
    world, rot = run.world, run.rot
    node, log = next(
        (node, partition.log)
        for node in world.nodes.values()
        for partition in (node.broker.partitions() if node.broker is not None else ())
        if partition.log.high_watermark > 0 and rot.may_begin(node)
    )
    assert node.process is not None and node.process.storage is not None
    logs = node.process.storage.logs
    logs.checkpoint_recovery_points()
    assert rot.wanting(node) is None
    path = log.segments[0].path(".log")
    node.disk.rewrite(path, bytes([node.disk.peek(path)[0] ^ 1]) + node.disk.peek(path)[1:])
    log.increment_log_start(log.high_watermark)
    assert log.path in (rot.wanting(node) or "")
    logs.checkpoint_recovery_points()
    assert rot.wanting(node) is None
    world.close()


def test_a_disk_that_went_for_good_before_anybody_saw_it_whole_is_not_waited_for() -> None:
    run = running()
    run.away = node = next(node for node in run.world.nodes.values() if run.rot.may_begin(node))
    node.kill()
    run.world.run(60.0, lambda: run.wanting() is None)
    run.rot.begins(node)
    assert run.wanting() is None
    run.world.close()


def test_the_files_of_operators_and_controllers_are_left_alone() -> None:
    run = running()
    for node in run.world.nodes.values():
        files = run.rot.files(node)
        assert any(path.endswith(".log") for path in files) or not node.is_broker
        assert not any("__cluster_metadata" in path or "meta.properties" in path for path in files)
    run.world.close()


def test_no_disk_lies_while_nobody_knows_who_is_in_sync() -> None:
    world = SimpleNamespace(nodes={}, image=None, active_controller=None)
    rot = Rot(cast(Any, world), cast(Any, None))
    assert not rot.may_begin(cast(Any, SimpleNamespace(is_broker=True, rotten=False, id=1)))
