"""The parts of the chaos that decide what a run says: its plan, its gaps, its values, its verdict."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

pytest.importorskip("confluent_kafka")

from tests.chaos.cluster import UnsettledError
from tests.chaos.copying import differences
from tests.chaos.faults import KINDS, RARE, _damaged, possible, rot
from tests.chaos.story import AT_LEAST, Report, draw
from tests.chaos.syncs import Syncs
from tests.chaos.traffic import BLOCK, Records, _offset_of, value_of


def world(*, links: bool = True, small_disk: int | None = 1) -> Any:
    return SimpleNamespace(
        ground=SimpleNamespace(has_links=links), cluster=SimpleNamespace(small_disk=small_disk)
    )


@pytest.mark.parametrize("seed", range(20))
def test_sixty_faults_are_at_least_five_of_each_kind_that_is_not_rare(seed: int) -> None:
    plan = Counter(draw(random.Random(seed), possible(world()), 60))
    assert plan.total() == 60
    assert all(plan[kind] >= AT_LEAST for kind in KINDS if kind not in RARE)
    assert plan == Counter(draw(random.Random(seed), possible(world()), 60)), "a seed is a plan"


def test_a_short_run_draws_different_kinds() -> None:
    plan = draw(random.Random(1), possible(world()), 6)
    assert len(plan) == 6 and len(set(plan)) >= 3


def test_without_root_links_and_the_small_disk_are_left_alone() -> None:
    kinds = possible(world(links=False, small_disk=None))
    assert {"cut link", "one-way link", "full disk"}.isdisjoint(kinds) and len(kinds) == len(KINDS) - 3


def test_the_gap_is_the_longest_silence_of_a_partition_also_where_it_lasts() -> None:
    records = Records()
    records.acknowledged["t-0"] = [1.0, 2.0, 3.0, 7.0, 8.0, 9.0]
    records.acknowledged["t-1"] = [1.0, 1.5, 2.0, 9.5]
    assert records.gap(2.5, 10.0) == 7.5
    assert records.gap(9.6, 16.0) == 7.0


def test_faults_begin_when_every_producer_is_known_in_every_partition() -> None:
    records = Records()
    for partition, writer in (("t-0", 1), ("t-0", 9), ("t-1", 1)):
        records.note_written(partition, writer, 1.0)
    assert records.known_everywhere({1}, 2) and not records.known_everywhere({1, 9}, 2)
    records.note_written("t-1", 9, 2.0)
    assert records.known_everywhere({1, 9}, 2) and records.gap(0.0, 2.0) == 1.0


def test_a_record_whose_offset_librdkafka_does_not_know_is_written_nevertheless() -> None:
    assert _offset_of(SimpleNamespace(offset=lambda: None)) == -1
    assert _offset_of(SimpleNamespace(offset=lambda: 7)) == 7


def test_the_longest_sync_is_that_of_a_time(tmp_path: Path) -> None:
    syncs = Syncs(tmp_path / "sync")
    for since, until in ((1.0, 9.0), (9.0, 9.5), (10.0, 12.0), (12.0, 12.1)):
        syncs.note(since, until)
    assert syncs.longest(0.0) == 8.0 and syncs.longest(9.8) == 2.0 and syncs.longest(13.0) == 0.0


def test_values_say_who_sent_them_in_the_words_of_both_clients() -> None:
    assert value_of(b"2000000017") == 2 * BLOCK + 17
    assert value_of("9.17") == value_of(b"9.17") == 9 * BLOCK + 17


def test_a_copy_is_exact_or_says_what_is_wrong_with_it() -> None:
    assert differences({0: [1, 2], 1: [3]}, {0: [1, 2], 1: [3]}) == []
    for copy, wrong in (
        ([1], "lost 1"),
        ([1, 2, 2], "twice 1"),
        ([1, 2, 9], "never written 1"),
        ([2, 1], "another order"),
    ):
        assert wrong in differences({0: [1, 2]}, {0: copy})[0]


def test_one_file_of_a_node_is_damaged_and_no_other(tmp_path: Path) -> None:
    folder = tmp_path / "log" / "orders-3"
    folder.mkdir(parents=True)
    for base in (0, 9):
        for ending in (".log", ".index", ".timeindex", ".snapshot"):
            (folder / f"{base:020}{ending}").write_bytes(random.Random(base).randbytes(9000))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    node: Any = SimpleNamespace(data=tmp_path)
    cluster = SimpleNamespace(ours=lambda _: ["orders-3"])
    words = _damaged(cast(Any, SimpleNamespace(rng=random.Random(7), cluster=cluster)), node)
    after = {path: path.read_bytes() if path.exists() else None for path in before}
    (changed,) = (path for path in before if after[path] != before[path])
    assert f"orders-3/{changed.name} (9000 bytes)" in words


def test_nothing_is_damaged_while_a_replica_is_not_in_sync() -> None:
    with pytest.raises(UnsettledError):
        rot(cast(Any, SimpleNamespace(settle=lambda seconds: False)))


def report(**changes: Any) -> Report:
    usual: dict[str, Any] = dict.fromkeys(Report._fields, 0) | {"anomalies": [], "problem": "", "faults": {}}
    return Report(**(usual | changes))


@pytest.mark.parametrize(
    ("changes", "ok"),
    [
        ({}, True),
        ({"anomalies": ["lost write: ..."]}, False),
        ({"problem": "not everything could be read"}, False),
        ({"failed": 1}, False),
        ({"longest_gap": 30.0}, True),
    ],
)
def test_only_a_run_in_which_nothing_was_lost_refused_or_unreadable_is_proven(
    changes: dict[str, Any], ok: bool
) -> None:
    assert cast(bool, report(**changes).ok) is ok
