"""How the quorum's disk bears a long life: a million records over ten thousand live keys, with snapshots.

    python -m bench.metadata_log [--records 1000000] [--keys 10000]

No network and no quorum: the real store, replay and snapshots of one controller on a real disk.  Written in
one process, opened in another, so that its memory is that of a restart.  One line of JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from barnabas.controller.feature_levels import bootstrap_levels, bootstrap_records
from barnabas.controller.replay import Replay
from barnabas.log.files.disk import OsDisk
from barnabas.model import ReplicaKey, Uuid
from barnabas.raft.entries import Batch, Opaque
from barnabas.raft.messages import SyncTicket
from barnabas.raft.settings import RaftConfig
from barnabas.raft.voters import VoterSet
from barnabas.server.kraft.records import metadata_of
from barnabas.server.kraft.recovery import metadata_log_config, open_store
from barnabas.server.kraft.settings import QuorumSettings
from barnabas.server.kraft.snapshots import SnapshotKeeper
from barnabas.server.kraft.storage import MetadataStore
from barnabas.server.loop.system import SystemClock
from barnabas.wire.metadata import ConfigRecord

BROKER, BATCH, SYNC_EVERY = 4, 20, 50


class AtOnce:
    """The disk thread of a program that has nothing else to do."""

    def run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        job()
        done(None)


def opened(directory: str) -> MetadataStore:
    store = open_store(
        OsDisk(),
        SystemClock(),
        directory,
        metadata_log_config(1 << 30, 604_800_000),
        cluster_id="bench",
        static_voters=VoterSet.EMPTY,
    )

    def fail(error: BaseException) -> None:
        raise error

    store.attach(AtOnce(), lambda message: None, fail)
    return store


def replay_waiting(store: MetadataStore, replay: Replay, keeper: SnapshotKeeper | None = None) -> None:
    for batch, timestamp_ms, size in store.committed(store.log_view.end_offset):
        if keeper is not None:
            keeper.committed(size)
        records = metadata_of(batch)
        replay.apply(records, offset=batch.base_offset, epoch=batch.epoch, timestamp_ms=timestamp_ms)
    replay.take_delta()


def write(directory: str, records: int, keys: int) -> dict[str, Any]:
    """Append everything, as a leader that is alone would."""
    store = opened(directory)
    replay = Replay(store.image)
    settings = QuorumSettings(
        ReplicaKey(1, Uuid.of(1, 1)), "bench", (), RaftConfig("bench"), snapshot_interval=0.0
    )
    keeper = SnapshotKeeper(settings, store)
    log_view, began = store.log_view, time.perf_counter()
    first = tuple(bootstrap_records(bootstrap_levels()))
    pending = [Opaque(first, len(first))]
    for start in range(0, records, BATCH):
        made = [
            ConfigRecord(
                resource_type=BROKER, resource_name=f"key-{n % keys:05d}", name="setting", value=f"value-{n}"
            )
            for n in range(start, min(start + BATCH, records))
        ]
        pending.append(Opaque(tuple(made), len(made)))
        for entry in pending:
            batch = Batch(log_view.end_offset, 1, (entry,))
            log_view.append(batch)
            store.append(batch)
        pending.clear()
        if start // BATCH % SYNC_EVERY == 0:
            store.start_sync(SyncTicket(log_view.end_offset, 0))
            replay_waiting(store, replay, keeper)
            if keeper.due(replay.image):
                job = keeper.begin(replay.image)
                job.run()
                keeper.finished()
                log_view.snapshot_taken(job.snapshot, job.size)
                keeper.clean()
    replay_waiting(store, replay, keeper)
    store.close()
    files = [path for path in Path(directory).rglob("*") if path.is_file()]
    return {
        "records": records,
        "keys": keys,
        "written_seconds": round(time.perf_counter() - began, 1),
        "snapshots_taken": keeper.taken,
        "log_bytes": sum(p.stat().st_size for p in files if p.suffix == ".log"),
        "snapshot_bytes": sum(p.stat().st_size for p in files if p.suffix == ".checkpoint"),
        "disk_bytes": sum(p.stat().st_blocks * 512 for p in files),
    }


def restart(directory: str) -> dict[str, Any]:
    """Open and replay, as a node does at its start."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    wall, cpu = time.perf_counter(), time.process_time()
    store = opened(directory)
    replay = Replay(store.image)
    replayed = len(store.waiting)
    replay_waiting(store, replay)
    return {
        "restart_seconds": round(time.perf_counter() - wall, 2),
        "restart_cpu_seconds": round(time.process_time() - cpu, 2),
        "batches_replayed": replayed,
        "live_keys": len(replay.image.configs),
        "memory_before_mib": before >> 10,
        "memory_peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
        "log_start": store.log.log_start_offset,
        "log_end": store.log.log_end_offset,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--restart", metavar="DIR", help="only open this directory")
    arguments = parser.parse_args()
    if arguments.restart:
        print(json.dumps(restart(arguments.restart)))
        return 0
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as directory:
        figures = write(directory, arguments.records, arguments.keys)
        again = [sys.executable, "-m", "bench.metadata_log", "--restart", directory]
        told = subprocess.run(again, capture_output=True, text=True, check=True)
        print(json.dumps({**figures, **json.loads(told.stdout)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
