"""The first start of a node without a format step: it begins a cluster, or joins one.

`barnabas start FILE --bootstrap` begins one, once; `--join HOST:PORT` lets all other nodes join it.  A node that
is to join waits until one of those addresses answers for a quorum.  While it waits, a controller also takes the
one request that begins a cluster with it (`barnabas quorum bootstrap`), for orchestrators that start all nodes
with the same words.

A node that is formatted takes no notice of these words, so they may stay in a service's command line.  One thing
can make a second cluster by accident: `--bootstrap` on a node whose disk was emptied.  So the node asks every
controller that it knows of first, and begins nothing where one answers for a quorum; it asks again when it starts
(`raft.identity.first_look`), and quorums of one id tell each other apart (`raft.identity.origin`).
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from barnabas.config import Config
from barnabas.errors import BarnabasError, ConfigError
from barnabas.log.files.meta_properties import (
    MetaProperties,
    holds_data,
    not_formatted,
    read_meta_properties,
)
from barnabas.ports import Clock, Disk, Randomness
from barnabas.server.node.awaiting_bootstrap import AwaitingBootstrap
from barnabas.server.node.existing_quorum import controllers_of, existing_quorum, start_to_join
from barnabas.server.node.format import FormatPlan, format_directories, generate_cluster_id
from barnabas.server.observe import events

__all__ = ["FirstStart", "prepare"]

FORMATTED_ALREADY = events.register(
    "node.formatted-already", logging.INFO, "this node is of a cluster already; it starts as it is"
)
AWAITS = events.register(
    "node.awaits-cluster", logging.INFO, "no quorum answers yet; this node waits until it can join one"
)
RETRY_S = 0.5
FIRST_S, LONGEST_S = 4.0, 60.0
"""Seconds until the first line about waiting, and between two at most."""


class FirstStart(NamedTuple):
    """What the command line says: `bootstrap` begins a cluster (of this id, if one is given), else it joins."""

    bootstrap: bool
    cluster_id: str | None = None


async def prepare(config: Config, first: FirstStart, disk: Disk, clock: Clock, random: Randomness) -> None:
    """See that the directories are formatted.  Raises ConfigError or StorageError with the next step."""
    known = _owner(config, disk)
    if known is not None:
        if first.cluster_id not in (None, known.cluster_id):
            raise ConfigError(
                f"{config.metadata_log_dir} belongs to cluster {known.cluster_id}, not to {first.cluster_id}",
                next_step="leave --cluster-id out, or name an empty directory in log.dirs",
            )
        events.emit(FORMATTED_ALREADY, cluster_id=known.cluster_id, node_id=known.node_id)
        return
    maker = _Maker(config, first.cluster_id, disk, clock, random)
    if first.bootstrap:
        await maker.begin(first.cluster_id)
    else:
        await maker.join()


def _owner(config: Config, disk: Disk) -> MetaProperties | None:
    """Whose directories these are; None for new ones.  Raises StorageError where data lie in one that is not."""
    paths = dict.fromkeys((config.metadata_log_dir, *config.log_dirs))
    known = [meta for path in paths if (meta := read_meta_properties(disk, path)) is not None]
    for path in paths:
        if not known and holds_data(disk, path):
            raise not_formatted(path)
    return known[0] if known else None


class _Maker:
    """Formats one node."""

    def __init__(
        self, config: Config, cluster_id: str | None, disk: Disk, clock: Clock, random: Randomness
    ) -> None:
        self.config = config
        self.cluster_id = cluster_id
        self._disk = disk
        self._clock = clock
        self._random = random

    def __repr__(self) -> str:
        return f"<_Maker of node {self.config.node_id}>"

    async def begin(self, cluster_id: str | None) -> str:
        """Begin a cluster; its id.  Raises ConfigError where a quorum answers, or this node cannot vote."""
        config = self.config
        if "controller" not in config.roles:
            raise ConfigError(
                "a cluster begins with a controller, and this node is none",
                next_step="start it with --join HOST:PORT, and --bootstrap a node with process.roles=controller",
            )
        if config.voters:
            raise ConfigError(
                "controller.quorum.voters fixes the voters, and a cluster that begins with one node changes them",
                next_step="replace it with controller.quorum.bootstrap.servers",
            )
        if cluster_id is not None and self.cluster_id not in (None, cluster_id):
            raise ConfigError(f"this node waits for cluster {self.cluster_id}, not for {cluster_id}")
        found = await existing_quorum(config)
        if found is not None:
            raise ConfigError(
                f"a controller at {found.address} answers for cluster {found.cluster_id}; another one would begin",
                next_step=start_to_join(config, found),
            )
        made = cluster_id or self.cluster_id or generate_cluster_id(self._random)
        self._format(FormatPlan.of(config, made, standalone=True))
        return made

    async def join(self) -> None:
        """Wait for a quorum that answers, or for the request to begin one here."""
        config = self.config
        if not controllers_of(config):
            raise ConfigError("--join names nobody but this node", next_step="name another controller")
        begun = said = self._clock.now().mono
        interval = FIRST_S
        async with AwaitingBootstrap(config, self.begin) as awaiting:
            while not awaiting.done.is_set():
                found = await existing_quorum(config)
                if awaiting.done.is_set():
                    return
                if found is not None:
                    if self.cluster_id not in (None, found.cluster_id):
                        raise ConfigError(
                            f"the controller at {found.address} is of cluster {found.cluster_id}, not "
                            f"{self.cluster_id}",
                            next_step="check --join and --cluster-id",
                        )
                    controller = "controller" in config.roles and not config.voters
                    self._format(FormatPlan.of(config, found.cluster_id, no_initial_controllers=controller))
                    return
                now = self._clock.now().mono
                if now - said >= interval:
                    said, interval = now, min(2 * interval, LONGEST_S)
                    asked = ",".join(f"{host}:{port}" for host, port in controllers_of(config))
                    here = [f"{at.host or '127.0.0.1'}:{at.port}" for at in config.controller_listeners[:1]]
                    at = here[0] if "controller" in config.roles and here else "HOST:PORT"
                    begin = f"barnabas quorum bootstrap -C {at}, once, at one controller"
                    events.emit(
                        AWAITS, seconds=int(now - begun), asked=asked, next=f"for a new cluster: {begin}"
                    )
                try:
                    await asyncio.wait_for(awaiting.done.wait(), RETRY_S)
                except TimeoutError:
                    continue

    def _format(self, plan: FormatPlan) -> None:
        result = format_directories(self._disk, self._clock, self._random, plan)
        if not result.done:
            raise BarnabasError("the directories were formatted meanwhile", next_step="start this node again")
        for path, directory_id in result.directory_ids.items():
            events.emit(
                events.NODE_FORMATTED,
                directory=path,
                cluster_id=result.cluster_id,
                node_id=self.config.node_id,
                directory_id=directory_id,
            )
