"""The file `endpoints.json`: where the controllers listen, as this node has heard (`raft.discovery.book`).

It only says where to dial.  So a file that is missing, old, damaged or of another cluster never stops a start:
the node begins with what its properties and its log say, and hears the rest again.
"""

from __future__ import annotations

import json
from typing import Any, Final

from crc32c import crc32c

from barnabas.errors import StorageError
from barnabas.model import Endpoint, ReplicaKey, Uuid
from barnabas.ports import Disk
from barnabas.raft.discovery.book import MOST_CONTACTS, Contact

__all__ = ["ENDPOINTS_FILE", "read_contacts", "write_contacts"]

ENDPOINTS_FILE: Final = "endpoints.json"
LONGEST_FILE = 1 << 20


def write_contacts(disk: Disk, directory: str, cluster_id: str, contacts: tuple[Contact, ...]) -> None:
    """Replace the file, atomically.  Raises StorageError."""
    nodes = [
        {
            "id": contact.key.id,
            "directory": str(contact.key.directory_id),
            "epoch": contact.epoch,
            "start": contact.start,
            "endpoints": [
                {"listener": e.listener, "host": e.host, "port": e.port} for e in contact.endpoints
            ],
        }
        for contact in contacts
    ]
    content = {"version": 0, "clusterId": cluster_id, "nodes": nodes, "checksum": _checksum(nodes)}
    disk.replace(f"{directory}/{ENDPOINTS_FILE}", json.dumps(content, indent=1).encode())


def read_contacts(disk: Disk, directory: str, cluster_id: str) -> tuple[tuple[Contact, ...], str]:
    """What the file says, and why it is not used (empty: it is, or there is none)."""
    path = f"{directory}/{ENDPOINTS_FILE}"
    try:
        if not disk.exists(path):
            return (), ""
        if disk.size(path) > LONGEST_FILE:
            return (), "it is too large"
        content = json.loads(disk.read(path))
        if content["version"] != 0:
            return (), f"version {content['version']} is not known"
        if content["clusterId"] != cluster_id:
            return (), f"it is of cluster {content['clusterId']}"
        if content["checksum"] != _checksum(content["nodes"]):
            return (), "its checksum is wrong"
        contacts = tuple(map(_contact, content["nodes"][:MOST_CONTACTS]))
    except StorageError as error:
        return (), error.message
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        return (), f"it is senseless: {error}"
    return tuple(contact for contact in contacts if contact.is_sane), ""


def _contact(node: dict[str, Any]) -> Contact:
    endpoints = tuple(Endpoint(str(e["listener"]), str(e["host"]), int(e["port"])) for e in node["endpoints"])
    key = ReplicaKey(int(node["id"]), Uuid.parse(node["directory"]))
    return Contact(key, endpoints, int(node["epoch"]), int(node["start"]))


def _checksum(nodes: list[dict[str, Any]]) -> int:
    return int(crc32c(json.dumps(nodes, sort_keys=True, separators=(",", ":")).encode()))
