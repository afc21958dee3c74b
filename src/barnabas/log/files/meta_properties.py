"""Small files that identify a directory's owner: `meta.properties`, `partition.metadata`, the clean-shutdown
marker.

Our `meta.properties` has a checksum, in a comment: one wrong letter in an id would make a node wait for ever
for a quorum that knows it by another id.
"""

from __future__ import annotations

import json
import re
import time
from typing import Final, NamedTuple

from crc32c import crc32c

from barnabas.errors import StorageError
from barnabas.log.files.checkpoint import put_in_place
from barnabas.model import METADATA_PARTITION, NO_NODE, DirectoryId, NodeId, Now, TopicId, Uuid
from barnabas.ports import Disk

__all__ = [
    "CLEAN_SHUTDOWN",
    "LOCK",
    "META_PROPERTIES",
    "PARTITION_METADATA",
    "MetaProperties",
    "check_identity",
    "holds_data",
    "not_formatted",
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
_CHECKSUM: Final = "#crc32c="
_DATA: Final = re.compile(r".+-\d+|.+\.[0-9a-f]{32}-(delete|stray|future)|.+-checkpoint|barnabas-last-life")
_UNUSED: Final = re.compile(r"0{20}-0{10}\.checkpoint(\.part|\.tmp)?")
_RESTORE: Final = "see docs/disks.md, 'meta.properties is missing or damaged'"


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
        text = disk.read(path).decode("utf-8")
        values = _properties(text)
        _check(text, values)
        version = int(values.get("version", "0"))
        if version not in (0, 1):
            raise ValueError(f"version {version} is not known")
        node = int(values["broker.id"] if version == 0 else values["node.id"])
        cluster = values.get("cluster.id", "")
        if version == 1 and not cluster:
            raise ValueError("cluster.id is missing")
        directory_id = values.get("directory.id")
        if version == 1 and node < 0:
            raise ValueError(f"node.id is {node}")
        return MetaProperties(cluster, node, Uuid.parse(directory_id) if directory_id else None)
    except KeyError as error:
        raise _senseless(path, f"{error.args[0]} is missing", directory) from error
    except (ValueError, UnicodeDecodeError) as error:
        raise _senseless(path, str(error), directory) from error


def write_meta_properties(disk: Disk, directory: str, meta: MetaProperties, now: Now) -> None:
    """Replace the file (version 1) atomically and durably."""
    stamp = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now.wall_ms / 1000))
    lines = [f"cluster.id={meta.cluster_id}"]
    if meta.directory_id is not None:
        lines.append(f"directory.id={meta.directory_id}")
    lines += [f"node.id={meta.node_id}", "version=1"]
    head = ["#", f"#{stamp}", f"{_CHECKSUM}{_checksum(_properties(chr(10).join(lines))):08x}"]
    disk.replace(f"{directory}/{META_PROPERTIES}", ("\n".join(head + lines) + "\n").encode())


def holds_data(disk: Disk, directory: str) -> bool:
    """Whether somebody's records lie in a directory, formatted or not.

    What formatting leaves that was cut short is none.  Raises StorageError.
    """
    if not disk.is_directory(directory):
        return False
    for name in disk.list(directory):
        path = f"{directory}/{name}"
        if name == CLEAN_SHUTDOWN or (_DATA.fullmatch(name) and name != "bootstrap.checkpoint"):
            if name != str(METADATA_PARTITION) or not disk.is_directory(path):
                return True
            if not all(_UNUSED.fullmatch(one) for one in disk.list(path)):
                return True
    return False


def not_formatted(directory: str) -> StorageError:
    """Somebody's records lie in a directory that does not say whose they are."""
    return StorageError(
        f"{directory} holds data, but has no {META_PROPERTIES}: it is not formatted over what lies there",
        directory=directory,
        next_step=_RESTORE,
    )


def _check(text: str, values: dict[str, str]) -> None:
    """Raise ValueError where the file is not what was written."""
    for line in text.splitlines():
        if line.startswith(_CHECKSUM) and line.removeprefix(_CHECKSUM) != f"{_checksum(values):08x}":
            raise ValueError(
                "its checksum is wrong; something in it is not what was written (who changed it on purpose "
                f"removes the line {_CHECKSUM}...)"
            )


def _checksum(values: dict[str, str]) -> int:
    return crc32c("\n".join(f"{key}={value}" for key, value in sorted(values.items())).encode())


def read_partition_metadata(disk: Disk, directory: str) -> TopicId | None:
    """The topic id of the log in `directory`; None when the file does not say it.

    It may be missing or half written (a crash came before the sync that comes before the first acknowledged
    record), or be senseless: the disk damaged it.
    """
    path = f"{directory}/{PARTITION_METADATA}"
    if not disk.exists(path):
        return None
    try:
        content = disk.read(path).rstrip(b"\0")
        lines = dict(line.split(":", 1) for line in content.decode("utf-8").splitlines() if line.strip())
        written = lines["topic_id"].strip()
        whole = int(lines["version"]) == 0 and len(written) >= _UUID_TEXT
        return Uuid.parse(written) if whole else None
    except (ValueError, KeyError):
        return None


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
        if not NO_NODE <= epoch < 1 << 63:
            raise ValueError(epoch)
    except (ValueError, AttributeError, TypeError, OverflowError, RecursionError):
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
    return StorageError(f"{path} is senseless: {why}", directory=directory, next_step=_RESTORE)


def check_identity(path: str, found: MetaProperties | None, cluster_id: str, node_id: NodeId) -> None:
    """Raise StorageError unless the directory in `path` is this node's."""
    if found is None:
        raise StorageError(
            f"{path} is not formatted: it has no {META_PROPERTIES}",
            directory=path,
            next_step="run `barnabas storage format` for this node",
        )
    if found.cluster_id and found.cluster_id != cluster_id:
        raise StorageError(
            f"{path} belongs to cluster {found.cluster_id}, this node to {cluster_id}",
            directory=path,
            next_step="give the node its own directory (log.dirs); meta.properties is right, do not edit it",
            fatal=True,
        )
    if found.node_id != node_id:
        raise StorageError(
            f"{path} belongs to node {found.node_id}, this is node {node_id}",
            directory=path,
            next_step="correct node.id or log.dirs; two nodes may not share a directory",
            fatal=True,
        )
