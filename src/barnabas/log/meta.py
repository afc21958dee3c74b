"""Small files that say whose a directory is: `meta.properties`, `partition.metadata`, the clean marker."""

from __future__ import annotations

import json
import time
from typing import Final, NamedTuple

from barnabas.doors import Disk
from barnabas.errors import StorageError
from barnabas.log.checkpoint import put_in_place
from barnabas.model import NO_NODE, DirectoryId, NodeId, Now, TopicId, Uuid

__all__ = [
    "CLEAN_SHUTDOWN",
    "LOCK",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "MetaProperties",
    "read_meta_properties",
    "read_partition_metadata",
    "take_clean_shutdown",
    "write_clean_shutdown",
    "write_meta_properties",
    "write_partition_metadata",
]

META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
LOCK: Final = ".lock"
_METADATA: Final = b"version: 0\ntopic_id: "
_UUID_TEXT: Final = 22


class MetaProperties(NamedTuple):
    """To which cluster and node a directory belongs, and its own id (None where an old file has none)."""

    cluster_id: str
    node_id: NodeId
    directory_id: DirectoryId | None


def read_meta_properties(disk: Disk, directory: str) -> MetaProperties | None:
    """Read version 0 or 1; None when the directory is not formatted.

    Raises StorageError when it is senseless.
    """
    path = f"{directory}/{META_PROPERTIES}"
    if not disk.exists(path):
        return None
    try:
        values = _properties(disk.read(path).decode("utf-8"))
        version = int(values.get("version", "0"))
        if version not in (0, 1):
            raise ValueError(f"version {version} is not known")
        node = int(values["broker.id"] if version == 0 else values["node.id"])
        cluster = values.get("cluster.id", "")
        if version == 1 and not cluster:
            raise ValueError("cluster.id is missing")
        directory_id = values.get("directory.id")
        return MetaProperties(cluster, node, Uuid.parse(directory_id) if directory_id else None)
    except KeyError as error:
        raise _senseless(path, f"{error.args[0]} is missing", directory) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise _senseless(path, str(error), directory) from error


def write_meta_properties(disk: Disk, directory: str, meta: MetaProperties, now: Now) -> None:
    """Replace the file (version 1) atomically and durably."""
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now.wall_ms / 1000))
    lines = ["#", f"#{stamp}", f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    lines += [f"node.id={meta.node_id}", "version=1"]
    disk.replace(f"{directory}/{META_PROPERTIES}", ("\n".join(lines) + "\n").encode())


def read_partition_metadata(disk: Disk, directory: str) -> TopicId | None:
    """The topic id of the log in `directory`; None when the file is missing or half written (a crash
    came before the sync that comes before the first acknowledged record).

    Raises StorageError if senseless.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    try:
        content = disk.read(path).rstrip(b"\0")
        if _METADATA.startswith(content) or (
            content.startswith(_METADATA) and len(content) < len(_METADATA) + _UUID_TEXT
        ):
            return None
        lines = dict(line.split(":", 1) for line in content.decode("utf-8").splitlines() if line.strip())
        if int(lines["version"]) != 0:
            raise ValueError(f"version {lines['version'].strip()} is not known")
        return Uuid.parse(lines["topic_id"].strip())
    except (ValueError, KeyError) as error:
        raise _senseless(path, str(error), directory) from error


def write_partition_metadata(disk: Disk, directory: str, topic_id: TopicId) -> str:
    """Say whose log this is.  Not synced: returns the path, for the sync of the first records."""
    path = f"{directory}/{PARTITION_METADATA}"
    put_in_place(disk, path, _METADATA + str(topic_id).encode())
    return path


def take_clean_shutdown(disk: Disk, directory: str) -> int | None:
    """Read and remove the marker of a clean stop (KIP-966).

    Returns the broker epoch in it, NO_NODE (-1) where it says none, None when the last stop was not clean.
    """
    path = f"{directory}/{CLEAN_SHUTDOWN}"
    if not disk.exists(path):
        return None
    try:
        content = json.loads(disk.read(path) or b"{}")
        epoch = int(content.get("brokerEpoch", NO_NODE))
    except (ValueError, AttributeError, TypeError):
        epoch = NO_NODE
    disk.remove(path)
    disk.sync_directory(directory)
    return epoch


def write_clean_shutdown(disk: Disk, directory: str, broker_epoch: int) -> None:
    """Say that every log in `directory` is closed and synced."""
    content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    disk.replace(f"{directory}/{CLEAN_SHUTDOWN}", content.encode())


def _properties(text: str) -> dict[str, str]:
    lines = (line.strip() for line in text.splitlines())
    pairs = (line.partition("=") for line in lines if line and line[0] not in "#!")
    return {key.strip(): value.strip().replace("\\:", ":").replace("\\=", "=") for key, _, value in pairs}


def _senseless(path: str, why: str, directory: str) -> StorageError:
    return StorageError(
        f"{path} is senseless: {why}",
        directory=directory,
        next_step="restore the file from a backup, or format the directory anew (its data is lost)",
    )
