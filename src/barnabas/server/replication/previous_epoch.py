"""The previous broker epoch, which a broker's disks keep if everything that it acknowledged was synced.

A controller removes a broker that did not stop cleanly from every in-sync and eligible set (KIP-966): its
disk may lack what only its memory had.  Our broker acknowledges nothing before it is synced, unless an
operator allows it (`flush.messages`), so an intact disk lacks nothing, however the process ended.  The broker
says so in the same way as Apache Kafka's after a clean stop: it registers with its previous broker epoch.  It does
not if the end of one of its logs was cut, as a torn end and a damaged one can look the same.  A
disk that was replaced, or is an older copy of itself, does not have that epoch.  If a disk is missing or was
removed from `log.dirs`, the other disks know that it is.  In both cases the controller applies KIP-966.

A registration may be committed though its answer is lost, and then the broker dies: it does not know the epoch of
that life, in which it served nothing.  So before a broker registers, its disks also note the incarnation that it
registers as; if they still do in the next life, that one registers as the same incarnation, and the controller
answers with the epoch that it has already.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from barnabas.config import Config
from barnabas.controller.image import MetadataImage
from barnabas.errors import ConfigError, StorageError
from barnabas.log.directories.log_directory import LogDirectory
from barnabas.model import BrokerEpoch, Uuid
from barnabas.ports import Disk

if TYPE_CHECKING:
    from barnabas.log.log import Log
    from barnabas.model import NodeId

__all__ = ["FILE", "PreviousEpoch", "everything_is_synced"]

FILE = "barnabas-last-life"
_NONE: BrokerEpoch = -1
_NODE, _TOPIC = "log.flush.interval.messages", "flush.messages"


class PreviousEpoch:
    """The notes on a broker's disks about its life before, and about this one as long as all is synced."""

    __slots__ = ("_directories", "_disk", "_registering", "_spoilt")

    def __init__(self, disk: Disk, directories: Sequence[LogDirectory]) -> None:
        self._disk = disk
        self._directories = directories
        self._spoilt = False
        self._registering = False
        """Whether the disks note an incarnation that registers."""

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
        found = self._read(directory)
        try:
            if not here.issuperset(found.get("directories", ())):
                return _NONE
        except TypeError:
            found = {}
        if any(_may_lack(log) for log in directory.logs.values()):
            return _NONE
        if directory.broker_epoch >= 0:
            return directory.broker_epoch
        epoch = found.get("brokerEpoch", _NONE)
        return epoch if isinstance(epoch, int) else _NONE

    def _read(self, directory: LogDirectory) -> dict[str, Any]:
        path = f"{directory.path}/{FILE}"
        try:
            found = json.loads(self._disk.read(path)) if self._disk.exists(path) else {}
        except (StorageError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def incarnation(self, fresh: Uuid) -> Uuid:
        """As which incarnation to register: as `fresh`, or again as that of the life before, if it had no answer.

        Noted before this returns, where the disks remember an epoch.
        """
        epoch, noted = self.epoch(), [self._read(directory) for directory in self._directories]
        if epoch < 0 or any(found.get("brokerEpoch") != epoch for found in noted):
            return fresh
        self._registering = True
        try:
            (before,) = {Uuid.parse(found["registering"]) for found in noted}
        except (KeyError, ValueError, TypeError, AttributeError):
            self._write({"brokerEpoch": epoch, "registering": str(fresh)}, forget=False)
            return fresh
        return before

    def remember(self, epoch: BrokerEpoch, *, synced: bool) -> None:
        """This life's epoch, before it can be in sync anywhere; not `synced`: nothing is known of it any more."""
        if self._spoilt:
            return
        self._spoilt = not synced
        # Where this cannot be written, an older epoch stays there, which no controller takes for this one; but
        # this one must go, and so must the incarnation of this life.
        self._write({"brokerEpoch": epoch if synced else _NONE}, forget=not synced or self._registering)
        self._registering = False

    def _write(self, said: dict[str, object], *, forget: bool) -> None:
        content = json.dumps({"version": 0, **said, "directories": sorted(self._ids())}).encode()
        for directory in self._directories:
            if directory.offline is None:
                try:
                    self._disk.replace(f"{directory.path}/{FILE}", content)
                except StorageError:
                    if forget:
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


def _may_lack(log: Log) -> bool:
    """Return whether a log may lack records that this broker acknowledged."""
    return log.recovery.cut_at >= 0 or bool(log.damage)


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
