"""A node's directories: checked for their owner, formatted if they are new, locked and loaded.

A node without a configuration formats itself the first time.  A node with one does not, like Apache Kafka: an
empty directory in a place where there should be data is more often an unmounted disk than a new node.

One of several directories may be missing or damaged: the node starts with the others, and that directory is
offline until the node starts again.  Only the directory of the metadata must be there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from barnabas.config import Config
from barnabas.errors import StorageError
from barnabas.log.directories.log_directories import LogDirectories
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.log.files.meta_properties import holds_data, not_formatted, read_meta_properties
from barnabas.log.files.sync import RunJobs
from barnabas.model import DirectoryId, Endpoint
from barnabas.ports import Clock, Disk, Randomness
from barnabas.server.loop.sync_threads import Stepwise
from barnabas.server.observe import events

__all__ = ["StorageSetup", "set_up_storage"]

STEPS_AT_ONCE = 16
"""Steps of recovery between two looks at signals and the like."""
RECOVERY_THREADS = 8
"""Threads that recover logs.  Those of a clean stop are opened by one: that waits for no disk, but for the
interpreter, and several threads would take it from each other at every system call."""
RunAside = Callable[[Sequence[Stepwise], int], Awaitable[None]]


class StorageSetup(NamedTuple):
    """Locked and loaded.  `metadata` is the directory of the metadata log, among `logs` or apart."""

    cluster_id: str
    directory_id: DirectoryId
    logs: LogDirectories
    metadata: LogDirectory
    formatted: bool
    """Whether it was made just now."""

    def close(self, clock: Clock, broker_epoch: int, run: RunJobs, *, clean: bool = True) -> None:
        """Sync everything, and leave the markers of a `clean` stop."""
        self.logs.close(clock.now(), broker_epoch, run, clean=clean)
        if self.metadata not in self.logs.directories:
            self.metadata.close(clock.now())

    def abandon(self) -> None:
        """Let go without syncing: the next start recovers."""
        self.logs.abandon()
        if self.metadata not in self.logs.directories:
            self.metadata.abandon()


async def set_up_storage(
    config: Config,
    disk: Disk,
    clock: Clock,
    random: Randomness,
    *,
    controller: Endpoint | None,
    format_new: bool,
    run: RunAside | None = None,
) -> StorageSetup:
    """Format (when allowed and everything is new), lock and recover this node's directories.

    `controller` is where this node's controller listens, for the first voter set.  `run` opens the logs, in
    threads perhaps.  Raises StorageError or
    ConfigError, each with the next step.
    """
    try:
        return await _open_home(config, disk, clock, random, controller, format_new, run or run_in_steps)
    except StorageError as error:
        if error.next_step is None:
            error.next_step = (
                "see that log.dirs names directories that this user can write and that have room"
            )
        raise


def _check_cluster(config: Config, cluster_id: str, path: str) -> None:
    """Raise StorageError for directories of another cluster than the one that the properties name."""
    wanted = config.optional_str("barnabas.cluster.id")
    if wanted and cluster_id and cluster_id != wanted:
        raise StorageError(
            f"log directory {path} is of cluster {cluster_id}, and barnabas.cluster.id={wanted}",
            directory=path,
            next_step="set log.dirs to the directories of this cluster, or correct barnabas.cluster.id",
        )


async def _open_home(
    config: Config,
    disk: Disk,
    clock: Clock,
    random: Randomness,
    controller: Endpoint | None,
    format_new: bool,
    run: RunAside,
) -> StorageSetup:
    metadata_path = config.metadata_log_dir
    paths = tuple(dict.fromkeys((metadata_path, *config.log_dirs)))
    known = [meta for path in paths if (meta := _meta(disk, path, path == metadata_path)) is not None]
    formatted = False
    if not known:
        for path in paths:
            if holds_data(disk, path):
                raise not_formatted(path)
        if not format_new:
            from barnabas.server.node.existing_quorum import format_advice  # once in a life

            raise StorageError(
                f"log directory {metadata_path} is not formatted",
                directory=metadata_path,
                next_step=await format_advice(config),
            )
        cluster_id = _format(config, disk, clock, random, controller)
        formatted = True
    else:
        cluster_id = next((meta for meta in known if meta), "")
        _check_cluster(config, cluster_id, metadata_path)
    logs = await _load(config, disk, clock, random, cluster_id, run)
    try:
        if (error := logs.missing().get(metadata_path)) is not None:
            raise error
        metadata = logs.at(metadata_path) or LogDirectory.lock(
            disk,
            metadata_path,
            cluster_id=cluster_id,
            node_id=config.node_id,
            config_for=lambda _: config.log_config(),
            randomness=random,
            now=clock.now(),
        )
    except StorageError:
        logs.abandon()
        raise
    return StorageSetup(cluster_id, metadata.directory_id, logs, metadata, formatted)


def _meta(disk: Disk, path: str, needed: bool) -> str | None:
    """The cluster id that a directory belongs to, None where it is not formatted (or damaged and not needed)."""
    if not disk.is_directory(path):
        return None
    try:
        meta = read_meta_properties(disk, path)
    except StorageError:
        if needed:
            raise
        return None
    return None if meta is None else meta.cluster_id


def _format(config: Config, disk: Disk, clock: Clock, random: Randomness, controller: Endpoint | None) -> str:
    from barnabas.server.node.format import (  # once in a life
        FormatPlan,
        format_directories,
        generate_cluster_id,
    )

    plan = FormatPlan.of(config, generate_cluster_id(random), standalone="controller" in config.roles)
    if controller is not None and plan.standalone is not None and not plan.standalone.port:
        from dataclasses import replace

        plan = replace(plan, standalone=plan.standalone._replace(port=controller.port))
    result = format_directories(disk, clock, random, plan)
    for path, directory_id in result.directory_ids.items():
        events.emit(
            events.NODE_FORMATTED,
            directory=path,
            cluster_id=result.cluster_id,
            node_id=config.node_id,
            directory_id=directory_id,
        )
    return result.cluster_id


async def run_in_steps(works: Sequence[Stepwise], most: int = 1) -> None:
    """One after the other, here, with a breath for the loop now and then."""
    taken = 0
    for work in works:
        for _ in work.steps():
            taken += 1
            if taken % STEPS_AT_ONCE == 0:
                await asyncio.sleep(0)


async def _load(
    config: Config, disk: Disk, clock: Clock, random: Randomness, cluster_id: str, run: RunAside
) -> LogDirectories:
    begun = clock.now()
    steps = LogDirectories.open_in_steps(
        disk,
        config.log_dirs,
        cluster_id=cluster_id,
        node_id=config.node_id,
        config_for=lambda _: config.log_config(),
        randomness=random,
        now=begun,
        expiration_ms=config.int("producer.id.expiration.ms"),
    )
    try:
        while True:
            try:
                openings = next(steps)
            except StopIteration as end:
                logs: LogDirectories = end.value
                break
            await run(openings, 1 if all(one.clean for one in openings) else RECOVERY_THREADS)
    finally:
        steps.close()  # a cancelled start releases the directories
    for failure in logs.failures:
        events.emit(events.DIRECTORY_OFFLINE, directory=failure.directory, error=failure)
    for log in logs.all_logs():
        for damage in log.damage:
            events.emit(
                events.LOG_DAMAGED, log=log.path, start=damage.start, end=damage.end, reason=damage.reason
            )
        found = log.recovery
        if found.cut_at >= 0:
            events.emit(
                events.LOG_LOST if found.lost else events.LOG_CUT,
                log=log.path,
                at=found.cut_at,
                bytes=found.bytes_cut,
                reason=found.reason,
            )
    unclean = [directory for directory in logs.directories if not directory.was_clean and directory.logs]
    if unclean:
        events.emit(
            events.LOG_RECOVERED,
            directories=",".join(directory.path for directory in unclean),
            logs=sum(len(directory.logs) for directory in unclean),
            seconds=f"{clock.now().mono - begun.mono:.3f}",
        )
    return logs
