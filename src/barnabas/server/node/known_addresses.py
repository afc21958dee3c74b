"""What a stopped node's directory says of the controllers' addresses, and putting one right.

For an operator, when nobody finds anybody: the node dials what `endpoints.json` says at its next start.
"""

from __future__ import annotations

from barnabas.config import Config
from barnabas.errors import ErrorCode, KafkaError
from barnabas.log.files.meta_properties import LOCK
from barnabas.model import METADATA_PARTITION, Endpoint, NodeId
from barnabas.ports import Clock, Disk
from barnabas.raft.discovery.book import Contact
from barnabas.server.kraft.discovery.address_book import read_contacts, write_contacts
from barnabas.server.node.lost_majority import fixed_voters, opened_copy

__all__ = ["known_addresses", "set_address"]


def known_addresses(disk: Disk, clock: Clock, config: Config) -> list[Contact]:
    """Everybody whom the directory of this node knows, by id.  Raises StorageError when a node runs on it."""
    contacts, _, _ = _read(disk, clock, config)
    return contacts


def set_address(
    disk: Disk, clock: Clock, config: Config, node: NodeId, host: str, port: int
) -> list[Contact]:
    """Write down that a controller is there.  Raises KafkaError VOTER_NOT_FOUND for one that nobody knows."""
    contacts, cluster_id, last_epoch = _read(disk, clock, config)
    known = [contact for contact in contacts if contact.key.id == node]
    if not known:
        ids = ", ".join(str(contact.key.id) for contact in contacts) or "nobody"
        raise KafkaError(
            ErrorCode.VOTER_NOT_FOUND,
            f"{config.metadata_log_dir} knows no controller {node}: it knows {ids}",
            next_step="name one of them, or put the address into controller.quorum.bootstrap.servers",
        )
    newest = max(known, key=lambda contact: contact.stamp)
    start = max(newest.start + 1, clock.now().wall_ms)
    endpoint = Endpoint(newest.endpoints[0].listener, host, port)
    told = Contact(newest.key, (endpoint,), max(newest.epoch, last_epoch), start)
    if not told.is_sane:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{host}:{port} cannot be an address")
    after = [told if contact.key == newest.key else contact for contact in contacts]
    directory = config.metadata_log_dir
    lock = disk.lock(f"{directory}/{LOCK}")
    try:
        said = tuple(contact for contact in after if contact.start)
        write_contacts(disk, f"{directory}/{METADATA_PARTITION}", cluster_id, said)
    finally:
        lock.release()
    return after


def _read(disk: Disk, clock: Clock, config: Config) -> tuple[list[Contact], str, int]:
    directory = config.metadata_log_dir
    with opened_copy(disk, clock, directory, fixed_voters(config)) as (meta, store):
        voters, epoch = store.log_view.voters, store.log_view.last_epoch
        contacts, _ = read_contacts(disk, f"{directory}/{METADATA_PARTITION}", meta.cluster_id)
        found = {voter.key: Contact(voter.key, voter.endpoints, epoch) for voter in voters if voter.endpoints}
        found |= {contact.key: contact for contact in contacts}
        return [found[key] for key in sorted(found)], meta.cluster_id, epoch
