"""The directories of several nodes on one host, formatted as one cluster the first time.

What the first format is about to write stands in a file beside them (`forming.json`) until every node is
formatted: where it is cut short, the next start goes on with the same cluster id and the same voters.  A node
that comes later joins the cluster that the others belong to.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from barnabas.config import Config
from barnabas.errors import ConfigError, StorageError
from barnabas.log.files.meta_properties import MetaProperties, read_meta_properties
from barnabas.model import NodeId
from barnabas.ports import Clock, Disk, Randomness
from barnabas.server.node.format import FormatPlan, format_directories, generate_cluster_id
from barnabas.server.node.host.layout import HostNode

__all__ = ["Formatted", "format_host"]

FORMING = "forming.json"


class Formatted(NamedTuple):
    """The cluster of this host, and which of its nodes were formatted just now."""

    cluster_id: str
    now: tuple[NodeId, ...]


def format_host(
    config: Config, nodes: Sequence[HostNode], disk: Disk, clock: Clock, randomness: Randomness
) -> Formatted:
    """Format what is not formatted yet.  Raises ConfigError or StorageError, with the next step.

    `config` is that of the host, of which the nodes were derived.
    """
    _check_alone(config, nodes, disk)
    known = {node.id: _meta(disk, node) for node in nodes}
    clusters = {meta.cluster_id for meta in known.values() if meta is not None}
    if len(clusters) > 1:
        raise ConfigError(
            f"the directories below {config.log_dirs[0]} belong to several clusters: "
            + ", ".join(sorted(clusters)),
            next_step="give each cluster a log.dirs of its own",
        )
    forming = _Forming(disk, config.log_dirs[0])
    first = forming.read()
    if not clusters and first is None:
        first = forming.begin(nodes, generate_cluster_id(randomness), randomness)
    cluster_id = next(iter(clusters)) if first is None else first["cluster_id"]
    new = tuple(id_ for id_, meta in known.items() if meta is None)
    for node in nodes:
        if node.id in new or first is not None:
            voters = first["voters"] if first is not None and node.controller else None
            plan = FormatPlan.of(
                Config.load({**config.given, **node.properties}, file=config.file),
                cluster_id,
                initial_controllers=voters,
                no_initial_controllers=voters is None and bool(node.controller),
                ignore_formatted=True,
            )
            format_directories(disk, clock, randomness, plan)
    if first is not None:
        forming.end()
    return Formatted(cluster_id, new)


class _Forming:
    """The file that says which cluster is being made."""

    def __init__(self, disk: Disk, directory: str) -> None:
        self._disk = disk
        self._directory = directory
        self._path = f"{directory}/{FORMING}"

    def __repr__(self) -> str:
        return f"<_Forming {self._path}>"

    def read(self) -> dict[str, Any] | None:
        """What was begun and not ended."""
        if not self._disk.exists(self._path):
            return None
        try:
            found: dict[str, Any] = json.loads(self._disk.read(self._path))
            return {"cluster_id": str(found["cluster_id"]), "voters": str(found["voters"])}
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StorageError(
                f"{self._path} cannot be read: {error}",
                directory=self._directory,
                next_step=f"no node of {self._directory} has run yet: remove that directory and start again",
            ) from error

    def begin(self, nodes: Sequence[HostNode], cluster_id: str, randomness: Randomness) -> dict[str, Any]:
        voters = ",".join(
            f"{node.id}@{node.controller}:{randomness.uuid()}" for node in nodes if node.controller
        )
        first = {"cluster_id": cluster_id, "voters": voters}
        self._disk.make_directories(self._directory)
        self._disk.replace(self._path, json.dumps(first).encode())
        return first

    def end(self) -> None:
        self._disk.remove(self._path)
        self._disk.sync_directory(self._directory)  # a node whose disk is lost later is no first voter again


def _check_alone(config: Config, nodes: Sequence[HostNode], disk: Disk) -> None:
    """Nothing else lives in these directories: no single node, and no node that would be left out."""
    own = {str(node.id) for node in nodes}
    for directory in config.log_dirs:
        if not disk.is_directory(directory):
            continue
        if read_meta_properties(disk, directory) is not None:
            raise ConfigError(
                f"{directory} is the directory of a single node",
                next_step="start it without --nodes, or give another directory: --override log.dirs=DIRECTORY",
            )
        for name in sorted(disk.list(directory)):
            path = f"{directory}/{name}"
            if name in own or not name.isdecimal() or not disk.is_directory(path):
                continue
            if read_meta_properties(disk, path) is not None:
                raise ConfigError(
                    f"{path} holds node {name}, which {len(nodes)} nodes from {nodes[0].id} on would leave out",
                    next_step=f"start --nodes {int(name) - nodes[0].id + 1}; to have fewer, "
                    f"`barnabas cluster remove-brokers {name} --execute --wait`, `barnabas cluster unregister "
                    f"--id {name}`, then remove {path}",
                )


def _meta(disk: Disk, node: HostNode) -> MetaProperties | None:
    """Of the node's first directory that is formatted; None where none is."""
    for directory in node.directories:
        if (meta := read_meta_properties(disk, directory)) is not None:
            return meta
    return None
