"""The previous broker epoch, which a broker's disks keep if everything that it acknowledged was synced.

A controller removes a broker that did not stop cleanly from every in-sync and eligible set (KIP-966): its
disk may lack what only its memory had.  Our broker acknowledges nothing before it is synced, unless an
operator allows it (`flush.messages`), so an intact disk lacks nothing, however the process ended.  The broker
says so in the same way as Apache Kafka's after a clean stop: it registers with its previous broker epoch.  A
disk that was replaced, or is an older copy of itself, does not have that epoch.  If a disk is missing or was
removed from `log.dirs`, the other disks know that it is.  In both cases the controller applies KIP-966.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from barnabas.config import Config
from barnabas.controller.image import MetadataImage
from barnabas.errors import ConfigError, StorageError
from barnabas.log.storage.log_directory import LogDirectory
from barnabas.model import BrokerEpoch
from barnabas.ports import Disk

if TYPE_CHECKING:
    from barnabas.model import NodeId

__all__ = ["FILE", "PreviousEpoch", "everything_is_synced"]

FILE = "barnabas-last-life"
_NONE: BrokerEpoch = -1
_NODE, _TOPIC = "log.flush.interval.messages", "flush.messages"


class PreviousEpoch:
    """`epoch()` of the life before, once; `remember` the epoch of this one as long as all is synced."""

    __slots__ = ("_directories", "_disk", "_spoilt")

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory]) -> None:
        self._disk = disk
        self._directories = directories
        self._spoilt = False

    def __repr__(self) -> str:
        return f"<PreviousEpoch of {len(self._directories)} directories{' spoilt' if self._spoilt else ''}>"

    def epoch(self) -> BrokerEpoch:
        """The broker epoch that all directories remember; -1 where something may be missing."""
        here = self._ids()
        return min((self._epoch_in(directory, here) for directory in self._directories), default=_NONE)

    def _ids(self) -> set[str]:
        return {str(directory.directory_id) for directory in self._directories if directory.offline is None}

    def _epoch_in(self, directory: LogDirectory, here: set[str]) -> BrokerEpoch:
        """What one directory remembers, unless one of those that were in use beside it is not `here`."""
        if directory.offline is not None:
            return _NONE
        path = f"{directory.path}/{FILE}"
        epoch = _NONE
        try:
            if self._disk.exists(path):
                found = json.loads(self._disk.read(path))
                if not here.issuperset(found.get("directories", ())):
                    return _NONE
                epoch = found["brokerEpoch"]
        except (StorageError, ValueError, KeyError, TypeError, AttributeError):
            epoch = _NONE
        if any(log.recovery.below_recovery_point or log.damage for log in directory.logs.values()):
            return _NONE
        if directory.broker_epoch >= 0:
            return directory.broker_epoch
        return epoch if isinstance(epoch, int) else _NONE

    def remember(self, epoch: BrokerEpoch, *, synced: bool) -> None:
        """This life's epoch, before it can be in sync anywhere; not `synced`: nothing is known of it any more."""
        if self._spoilt:
            return
        self._spoilt = not synced
        said = {"version": 0, "brokerEpoch": epoch if synced else _NONE, "directories": sorted(self._ids())}
        content = json.dumps(said).encode()
        for directory in self._directories:
            if directory.offline is None:
                try:
                    self._disk.replace(f"{directory.path}/{FILE}", content)
                except StorageError:
                    # An older epoch stays there, which no controller takes for this one; but this one must go.
                    if not synced:
                        self._forget(directory)

    def _forget(self, directory: LogDirectory) -> None:
        """There is no room to say that this life is not to be remembered: remove what says that it is."""
        path = f"{directory.path}/{FILE}"
        try:
            if self._disk.exists(path):
                self._disk.remove(path)
                self._disk.sync_directory(directory.path)
        except StorageError as error:
            error.full = False
            directory.fail(error)


def everything_is_synced(config: Config, image: MetadataImage, node: NodeId) -> bool:
    """Whether this node, and every topic, acknowledges only what is synced.

    Not where the node's own configuration says otherwise: what changes that may be refused.
    """
    changed = {**image.cluster_config(), **image.broker_config(node)}.get(_NODE)
    try:
        usual = config if changed is None else config.with_changes({_NODE: changed})
        synced = config.log_config().sync_before_ack and usual.log_config().sync_before_ack
        return synced and all(
            usual.log_config({_TOPIC: image.topic_config(name)[_TOPIC]}).sync_before_ack
            for name in image.topics_by_name
            if _TOPIC in image.topic_config(name)
        )
    except ConfigError:  # set by a release that knows more values
        return False
