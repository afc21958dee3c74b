"""A broker as the controller sees it: registered, fenced, unfenced, leaving (KIP-631, KIP-841).

A broker registers and is fenced; its heartbeats show how far it has replayed the metadata log, and once it
knows of its own registration and asks for it, it is unfenced and may lead.  Silent for longer than its
session it is fenced again.  Before it stops it asks to leave, and its leaderships move away first.  Its
epoch, the offset at which it registered, tells its requests from those of an earlier start.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping

from barnabas.controller.decisions.directories import directories_reported
from barnabas.controller.decisions.handing_over import depose, give_away, take_out
from barnabas.controller.decisions.partitions import elect_for, elect_reported, remove_broker
from barnabas.controller.feature_levels import ELR_FEATURE, METADATA_VERSION, level_text, unknown_level
from barnabas.controller.image import BrokerState, MetadataImage
from barnabas.controller.versions import CONTROLLERS_LEAVE, DIRECTORIES
from barnabas.controller.view import BrokerContact, Deciding, Decision, View
from barnabas.errors import ErrorCode, KafkaError
from barnabas.model import NO_OFFSET, DirectoryId, NodeId, Now, Offset
from barnabas.wire.codec.message import MetadataRecord
from barnabas.wire.metadata import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
    UnregisterControllerRecord,
)
from barnabas.wire.schemas.brokers import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)

__all__ = [
    "fence_silent_broker",
    "heartbeat",
    "presumed_contacts",
    "register_broker",
    "register_controller",
    "silent_broker",
    "unregister_broker",
    "unregister_controller",
]

_RESERVED_DIRECTORIES = 100
"""Directory ids below this value mean something else than a directory."""


# Registration.


def register_broker(view: View, request: BrokerRegistrationRequest) -> Deciding:
    """BrokerRegistration (key 62).  Raises KafkaError with the code of the check that failed."""
    known = view.image.brokers.get(request.broker_id)
    _check_registration(view, request, known)
    records: list[MetadataRecord] = []
    same_incarnation = known is not None and known.incarnation == request.incarnation_id
    if known is not None and not same_incarnation:
        elr = view.image.feature(ELR_FEATURE) >= 1
        clean = not elr or request.previous_broker_epoch == known.epoch
        records += yield from remove_broker(view.image, known.id, view.rules, unclean_shutdown=not clean)
    epoch = known.epoch if known is not None and same_incarnation else view.next_offset
    records.append(
        RegisterBrokerRecord(
            broker_id=request.broker_id,
            is_migrating_zk_broker=False,
            incarnation_id=request.incarnation_id,
            broker_epoch=epoch,
            end_points=[
                BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
                for e in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=f.name,
                    min_supported_version=f.min_supported_version,
                    max_supported_version=f.max_supported_version,
                )
                for f in request.features
            ],
            rack=request.rack,
            fenced=known.fenced if known is not None and same_incarnation else True,
            in_controlled_shutdown=known.in_controlled_shutdown
            if known is not None and same_incarnation
            else False,
            log_dirs=list(request.log_dirs) if _knows_directories(view.image) else [],
            cordoned_log_dirs=None,
        )
    )
    contact = BrokerContact(
        epoch=epoch,
        heard=view.now.mono,
        metadata_offset=-1,
        registered_at=view.next_offset + len(records) - 1,
    )
    return Decision(BrokerRegistrationResponse(broker_epoch=epoch), records, {request.broker_id: contact})


def _check_registration(view: View, request: BrokerRegistrationRequest, known: BrokerState | None) -> None:
    id_ = request.broker_id
    if request.cluster_id != view.image.cluster_id:
        raise KafkaError(
            ErrorCode.INCONSISTENT_CLUSTER_ID,
            f"broker {id_} belongs to cluster {request.cluster_id}, this one is {view.image.cluster_id}",
        )
    if known is not None and known.incarnation != request.incarnation_id and _session_lives(view, known):
        raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"another broker with id {id_} is alive")
    if request.is_migrating_zk_broker:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, "brokers on ZooKeeper cannot register")
    if _knows_directories(view.image):
        _check_directories(view.image, id_, request.log_dirs)
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    if METADATA_VERSION not in ranges:
        raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {id_} does not say its metadata.version")
    _check_levels(f"broker {id_}", ranges, view.image)


def _check_levels(who: str, ranges: Mapping[str, tuple[int, int]], image: MetadataImage) -> None:
    if why := unknown_level(ranges, image.features):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{who} {why}, at which the cluster is")


def _knows_directories(image: MetadataImage) -> bool:
    return image.feature(METADATA_VERSION) >= DIRECTORIES


def _check_directories(image: MetadataImage, id_: NodeId, directories: Iterable[DirectoryId]) -> None:
    own = list(directories)
    if not own:
        why = "names no log directory"
    elif len(set(own)) != len(own):
        why = "names a log directory twice"
    elif any(int.from_bytes(directory, "big") < _RESERVED_DIRECTORIES for directory in own):
        why = "names a reserved directory id"
    else:
        for other in image.brokers.values():
            if other.id != id_ and (shared := set(own) & set(other.directories)):
                why = f"names directory {next(iter(shared))} of broker {other.id}"
                break
        else:
            return
    raise KafkaError(ErrorCode.INVALID_REGISTRATION, f"broker {id_} {why}")


def _session_lives(view: View, broker: BrokerState) -> bool:
    contact = view.contacts.get(broker.id)
    if contact is None or contact.presumed or contact.epoch != broker.epoch:
        return False
    return view.now.mono < contact.heard + _session(view)


def _session(view: View) -> float:
    return view.config.int("broker.session.timeout.ms") / 1000


def unregister_broker(view: View, request: UnregisterBrokerRequest) -> Deciding:
    """UnregisterBroker (key 64): forget a broker; it leaves all ISRs and ELRs."""
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"broker {request.broker_id} is not registered")
    records: list[MetadataRecord] = []
    records += yield from remove_broker(view.image, broker.id, view.rules, unclean_shutdown=True)
    records.append(UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch))
    return Decision(UnregisterBrokerResponse(error_message=None), records, {broker.id: None})


def register_controller(view: View, request: ControllerRegistrationRequest) -> Decision:
    """ControllerRegistration (key 70): what a controller can do, for upgrades (KIP-919).

    Raises KafkaError(UNSUPPORTED_VERSION) for one that does not know a level of this cluster.
    """
    ranges = {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
    _check_levels(f"controller {request.controller_id}", ranges, view.image)
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=request.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in request.listeners
        ],
        features=[
            ControllerFeature(
                name=f.name,
                min_supported_version=f.min_supported_version,
                max_supported_version=f.max_supported_version,
            )
            for f in request.features
        ],
    )
    return Decision(ControllerRegistrationResponse(error_message=None), [record])


def unregister_controller(view: View, request: UnregisterControllerRequest) -> Decision:
    """UnregisterController (key 94): forget what a controller can do; one that runs registers again.

    Raises KafkaError: INVALID_REQUEST for the active controller itself, CONTROLLER_ID_NOT_REGISTERED, or
    UNSUPPORTED_VERSION at a level without a record for it.
    """
    if request.controller_id == view.config.node_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if view.image.feature(METADATA_VERSION) < CONTROLLERS_LEAVE:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"controllers can be unregistered from metadata.version "
            f"{level_text(METADATA_VERSION, CONTROLLERS_LEAVE)} on, and the cluster is at "
            f"{level_text(METADATA_VERSION, view.image.feature(METADATA_VERSION))}",
        )
    id_ = request.controller_id
    if id_ not in view.image.controllers:
        raise KafkaError(ErrorCode.CONTROLLER_ID_NOT_REGISTERED, f"controller {id_} is not registered")
    record = UnregisterControllerRecord(controller_id=id_)
    return Decision(UnregisterControllerResponse(error_message=None), [record])


# Heartbeats.


def heartbeat(view: View, request: BrokerHeartbeatRequest) -> Deciding:
    """BrokerHeartbeat (key 63): move the broker through fenced, unfenced, leaving, gone.

    Raises KafkaError(STALE_BROKER_EPOCH).
    """
    broker = known_broker(view, request.broker_id, request.broker_epoch)
    offset = request.current_metadata_offset
    old = view.contacts.get(broker.id)
    contact = BrokerContact(
        epoch=broker.epoch,
        heard=view.now.mono,
        metadata_offset=offset,
        registered_at=broker.epoch if old is None else old.registered_at,
        shutdown_offset=None if old is None else old.shutdown_offset,
        unfit=frozenset(request.unfit_log_dirs),
        incomplete=frozenset((row.topic_id, row.partition_index) for row in request.incomplete),
        log_ends={
            (row.topic_id, row.partition_index): (row.leader_epoch, row.end_offset)
            for row in request.leaderless
        },
        unclean_stop=request.unclean_stop,
        leaderless_since=old.leaderless_since if old is not None and old.log_ends else view.now.mono,
    )
    view = view._replace(contacts={**view.contacts, broker.id: contact})
    caught_up = offset >= contact.registered_at
    records: list[MetadataRecord] = []
    fenced, stop, given_away = broker.fenced, False, NO_OFFSET
    if broker.fenced:
        stop = request.want_shut_down
        if not stop and not request.want_fence and caught_up:
            records += yield from _unfence(view, broker, request.offline_log_dirs)
            fenced = False
    elif broker.in_controlled_shutdown and not request.want_fence:
        if contact.shutdown_offset is None:  # another controller began it: others may not have seen that yet
            contact = contact._replace(shutdown_offset=view.next_offset - 1)
        if not _leads(view.image, broker.id) and _all_have_seen(view, contact.shutdown_offset):
            records += yield from fence(view, broker)
            fenced, stop = True, True
    elif request.want_fence or (request.want_shut_down and not _leads(view.image, broker.id)):
        records += yield from fence(view, broker)
        fenced, stop = True, request.want_shut_down
    elif request.want_shut_down:
        records += yield from _leave(view, broker)
        contact = contact._replace(shutdown_offset=view.next_offset + len(records) - 1)
    else:
        records += yield from take_out(view.image, broker.id, contact.incomplete, view.rules)
        if contact.unfit and not records:  # (each decides by the image, perhaps about the same partition)
            records += yield from give_away(view.image, broker.id, contact.unfit, view.rules)
            given_away = view.next_offset + len(records) - 1 if records else NO_OFFSET
        if request.refused and not records:
            refused = [(row.topic_id, row.partition_index, row.leader_epoch) for row in request.refused]
            records += yield from depose(view.image, broker.id, refused, view.rules)
        if contact.log_ends:
            records += yield from elect_reported(view.image, contact.log_ends, view.rules)
    if not stop and (request.offline_log_dirs or request.cordoned_log_dirs is not None):
        records += yield from directories_reported(
            view, broker, request.offline_log_dirs, request.cordoned_log_dirs
        )
    answer = BrokerHeartbeatResponse(
        is_caught_up=caught_up,
        is_fenced=fenced,
        should_shut_down=stop,
        now_ms=view.now.wall_ms,
        given_away=given_away,
    )
    return Decision(answer, records, {broker.id: None if stop else contact})


def known_broker(view: View, id_: NodeId, epoch: int) -> BrokerState:
    """The broker with that id and epoch.  Raises KafkaError(STALE_BROKER_EPOCH)."""
    broker = view.image.brokers.get(id_)
    if broker is None or broker.epoch != epoch:
        now = "is not registered" if broker is None else f"has epoch {broker.epoch} by now, not {epoch}"
        raise KafkaError(ErrorCode.STALE_BROKER_EPOCH, f"broker {id_} {now}")
    return broker


def _leads(image: MetadataImage, broker: NodeId) -> bool:
    return any(s.leader == broker for topic in image.topics.values() for s in topic.partitions.values())


def _all_have_seen(view: View, offset: Offset | None) -> bool:
    """Whether every active broker has replayed the log up to `offset`."""
    if offset is None:
        return True
    return all(
        (contact := view.contacts.get(broker.id)) is not None and contact.metadata_offset >= offset
        for broker in view.image.brokers.values()
        if broker.active
    )


def _unfence(
    view: View, broker: BrokerState, offline: Iterable[DirectoryId]
) -> Generator[None, None, list[MetadataRecord]]:
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=-1)
    elected = yield from elect_for(view.image, broker.id, view.rules, frozenset(offline))
    return [change, *elected]


def fence(view: View, broker: BrokerState) -> Generator[None, None, list[MetadataRecord]]:
    """The records that take a broker out of service."""
    change = BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, fenced=1)
    changes = yield from remove_broker(view.image, broker.id, view.rules)
    return [*changes, change]


def _leave(view: View, broker: BrokerState) -> Generator[None, None, list[MetadataRecord]]:
    change = BrokerRegistrationChangeRecord(
        broker_id=broker.id, broker_epoch=broker.epoch, in_controlled_shutdown=1
    )
    changes = yield from remove_broker(view.image, broker.id, view.rules)
    return [change, *changes]


# Sessions.


def silent_broker(view: View) -> BrokerState | None:
    """The broker that has been silent for longest, if it is beyond its session and unfenced."""
    limit = view.now.mono - _session(view)
    silent = [
        (contact.heard, id_)
        for id_, contact in view.contacts.items()
        if contact.heard <= limit and (b := view.image.brokers.get(id_)) is not None and not b.fenced
    ]
    return view.image.brokers[min(silent)[1]] if silent else None


def fence_silent_broker(view: View) -> Generator[None, None, list[MetadataRecord]]:
    """Fence the broker that has been silent for longest, if it is beyond its session; [] if none is."""
    broker = silent_broker(view)
    if broker is None:
        return []
    return (yield from fence(view, broker))


def presumed_contacts(image: MetadataImage, now: Now) -> dict[NodeId, BrokerContact]:
    """What a controller that just became active assumes: it heard every unfenced broker just now."""
    return {
        broker.id: BrokerContact(
            epoch=broker.epoch,
            heard=now.mono,
            metadata_offset=-1,
            registered_at=broker.epoch,
            presumed=True,
        )
        for broker in image.brokers.values()
        if not broker.fenced
    }
