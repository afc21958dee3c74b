"""Formatting: what makes a directory a node's own, before the node starts for the first time.

As the storage tool of Apache Kafka 4.3 does it, file by file: `bootstrap.checkpoint` (the features of the
cluster) in every directory; in the metadata directory of a quorum whose voters change at run time (KIP-853) also
`__cluster_metadata-0/00000000000000000000-0000000000.checkpoint` with the first voters; `meta.properties`
last, so that a directory is formatted whole or not at all.  4.4 writes the features beside the first voters, and
reads them in either place, as we do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from barnabas.config import Config
from barnabas.controller.feature_levels import (
    KRAFT_VERSION,
    METADATA_VERSION,
    RELEASES,
    bootstrap_levels,
    bootstrap_records,
    release_level,
)
from barnabas.controller.versions import LATEST
from barnabas.errors import ConfigError
from barnabas.log.files.meta_properties import (
    MetaProperties,
    holds_data,
    not_formatted,
    read_meta_properties,
    write_meta_properties,
)
from barnabas.log.files.snapshot import SnapshotId, SnapshotWriter
from barnabas.model import METADATA_PARTITION, DirectoryId, Endpoint, NodeId, ReplicaKey, Uuid
from barnabas.ports import Clock, Disk, Randomness
from barnabas.raft.voters import Voter, VoterSet
from barnabas.server.kraft.records import BOOTSTRAP, snapshot_batches
from barnabas.wire.metadata import UserScramCredentialRecord

__all__ = [
    "FormatPlan",
    "FormatResult",
    "check_alone",
    "dialled",
    "format_directories",
    "format_report",
    "generate_cluster_id",
    "parse_initial_controllers",
]

_WILDCARDS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class FormatPlan:
    """What is to be formatted, checked.

    `voters` is None where the quorum is fixed by controller.quorum.voters (kraft.version 0), or where this
    node waits to be told (`--no-initial-controllers`, brokers).  `standalone` adds the node itself.
    """

    node_id: NodeId
    cluster_id: str
    directories: tuple[str, ...]
    metadata_directory: str
    levels: Mapping[str, int]
    kraft_version: int
    voters: VoterSet | None = None
    standalone: Endpoint | None = None
    ignore_formatted: bool = False
    users: tuple[UserScramCredentialRecord, ...] = ()
    """The first users of a new cluster."""

    @classmethod
    def of(
        cls,
        config: Config,
        cluster_id: str,
        *,
        standalone: bool = False,
        initial_controllers: str | None = None,
        no_initial_controllers: bool = False,
        ignore_formatted: bool = False,
        features: Mapping[str, int] | None = None,
        release: str | None = None,
        users: Iterable[UserScramCredentialRecord] = (),
    ) -> FormatPlan:
        """A plan from a configuration and the words of the command line.  Raises ConfigError."""
        features = dict(features or {})
        _check_cluster_id(cluster_id)
        if release is not None and METADATA_VERSION in features:
            raise ConfigError(f"{METADATA_VERSION} is given twice: as a release and as a feature")
        is_controller = "controller" in config.roles
        _check_flags(config, is_controller, standalone, initial_controllers, no_initial_controllers)
        dynamic = not config.voters
        asked = features.pop(KRAFT_VERSION, None)
        if asked is not None and asked != int(dynamic):
            raise ConfigError(
                f"{KRAFT_VERSION}={asked} does not fit a quorum whose voters "
                + ("change at run time" if dynamic else "are fixed by controller.quorum.voters")
            )
        endpoint = _own_endpoint(config) if standalone else None
        voters = None
        if initial_controllers is not None:
            voters = parse_initial_controllers(initial_controllers, _controller_listener(config))
        return cls(
            node_id=config.node_id,
            cluster_id=cluster_id,
            directories=_directories(config),
            metadata_directory=config.metadata_log_dir,
            levels=bootstrap_levels(LATEST if release is None else release_level(release), features),
            kraft_version=int(dynamic),
            voters=voters,
            standalone=endpoint,
            ignore_formatted=ignore_formatted,
            users=tuple(users),
        )


@dataclass(frozen=True, slots=True)
class FormatResult:
    """What was done: a line per directory, and the ids; `done` False when there was nothing to do."""

    cluster_id: str
    lines: list[str] = field(default_factory=list)
    directory_ids: Mapping[str, DirectoryId] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        return bool(self.directory_ids)


def generate_cluster_id(randomness: Randomness) -> str:
    """A new cluster id: the text of a random uuid."""
    return str(randomness.uuid())


def format_directories(disk: Disk, clock: Clock, randomness: Randomness, plan: FormatPlan) -> FormatResult:
    """Carry a plan out.

    Raises ConfigError when a directory is formatted already (unless those are to be passed over) or is
    another node's or cluster's, StorageError when it cannot be written, or holds data though it is not.
    """
    todo = []
    for directory in plan.directories:
        known = read_meta_properties(disk, directory)
        if known is None:
            if holds_data(disk, directory):
                raise not_formatted(directory)
            todo.append(directory)
        elif not plan.ignore_formatted:
            raise ConfigError(
                f"log directory {directory} is formatted already",
                next_step="use --ignore-formatted to pass over it and format the others",
            )
        elif (known.cluster_id, known.node_id) != (plan.cluster_id, plan.node_id):
            raise ConfigError(
                f"log directory {directory} belongs to node {known.node_id} of cluster {known.cluster_id}, "
                f"not to node {plan.node_id} of {plan.cluster_id}"
            )
    if not todo:
        return FormatResult(plan.cluster_id, ["All of the log directories are already formatted."])
    ids = {directory: randomness.uuid() for directory in todo}
    own = plan.voters.get(plan.node_id) if plan.voters is not None else None
    if own is not None and plan.metadata_directory in ids:
        ids[plan.metadata_directory] = own.key.directory_id
    lines = []
    for directory in todo:
        _make_durably(disk, directory)
        _write_bootstrap(disk, clock, directory, plan)
        kind = "data directory"
        if directory == plan.metadata_directory:
            kind = _write_first_voters(disk, clock, plan, ids[directory])
        meta = MetaProperties(plan.cluster_id, plan.node_id, ids[directory])
        write_meta_properties(disk, directory, meta, clock.now())
        release = RELEASES[plan.levels[METADATA_VERSION]]
        lines.append(f"Formatting {kind} {directory} with metadata.version {release}.")
    return FormatResult(plan.cluster_id, lines, ids)


def check_alone(config: Config, cluster_id: str) -> None:
    """Before a quorum of one: ask the controllers that the properties name.

    Raises ConfigError, with the way to join, where one of them answers for a quorum of this cluster id.
    """
    import asyncio  # once in a life

    from barnabas.server.node.existing_quorum import refuse_second_quorum

    asyncio.run(refuse_second_quorum(config, cluster_id))


def _make_durably(disk: Disk, directory: str) -> None:
    """Make a directory with its parents, so that their names survive a power cut."""
    parents = [directory]
    while not disk.is_directory(parents[-1]):
        parents.append(parents[-1].rpartition("/")[0] or ("/" if parents[-1].startswith("/") else "."))
    disk.make_directories(directory)
    for parent in parents[1:]:
        disk.sync_directory(parent)


def _write_bootstrap(disk: Disk, clock: Clock, directory: str, plan: FormatPlan) -> None:
    batches = snapshot_batches(
        [*bootstrap_records(plan.levels), *plan.users],
        epoch=0,
        stamp=lambda: clock.now().wall_ms,
        last_contained_ms=0,
        metadata_version=plan.levels[METADATA_VERSION],
    )
    disk.replace(f"{directory}/{BOOTSTRAP}", b"".join(batches))


def _write_first_voters(disk: Disk, clock: Clock, plan: FormatPlan, directory_id: DirectoryId) -> str:
    """Write the 0-0 snapshot where the plan knows the first voters.  Returns the kind of directory."""
    voters = plan.voters
    if plan.standalone is not None:
        voters = VoterSet.of([Voter(ReplicaKey(plan.node_id, directory_id), (plan.standalone,))])
    if voters is None:
        return "metadata directory"
    path = f"{plan.metadata_directory}/{METADATA_PARTITION}"
    disk.make_directories(path)
    writer = SnapshotWriter(disk, path, SnapshotId(0, 0))
    batches = snapshot_batches(
        (),
        epoch=0,
        stamp=lambda: clock.now().wall_ms,
        last_contained_ms=clock.now().wall_ms,
        voters=voters,
        kraft_version=1,
    )
    writer.append(list(batches))
    writer.freeze()
    disk.sync_directory(plan.metadata_directory)
    return f"dynamic metadata {'' if voters.get(plan.node_id) is None else 'voter '}directory"


def format_report(disk: Disk, directories: Iterable[str]) -> tuple[list[str], list[str], dict[str, str]]:
    """What `storage info` shows: (directories found, problems, properties of the first formatted one)."""
    found: list[str] = []
    problems: list[str] = []
    properties: dict[str, str] = {}
    for directory in directories:
        if not disk.is_directory(directory):
            problems.append(f"{directory} is not a directory")
            continue
        found.append(directory)
        meta = read_meta_properties(disk, directory)
        if meta is None:
            problems.append(f"{directory} is not formatted.")
        elif not properties:
            properties = {
                "cluster.id": meta.cluster_id,
                "directory.id": str(meta.directory_id),
                "node.id": str(meta.node_id),
                "version": "1",
            }
    return found, problems, properties


# The words of the command line.


def parse_initial_controllers(text: str, listener: str) -> VoterSet:
    """The voters of `id@host:port:directory-id,...` (all listening on `listener`).  Raises ConfigError."""
    voters = []
    for item in text.split(","):
        node, at, rest = item.strip().partition("@")
        address, colon, directory = rest.rpartition(":")
        host, second, port = address.rpartition(":")
        try:
            if not (at and colon and second and host):
                raise ValueError("a part is missing")
            key = ReplicaKey(int(node), Uuid.parse(directory))
            endpoint = Endpoint(listener, host.removeprefix("[").removesuffix("]"), int(port))
            if key.id < 0 or not 0 < endpoint.port < 65536:
                raise ValueError("the id or the port is out of range")
        except ValueError as error:
            raise ConfigError(
                f"{item!r} is not id@host:port:directory-id ({error})",
                next_step="make directory ids with `barnabas storage random-uuid`",
            ) from error
        voters.append(Voter(key, (endpoint,)))
    keys = [voter.key for voter in voters]
    if len({key.id for key in keys}) != len(keys) or len({key.directory_id for key in keys}) != len(keys):
        raise ConfigError(f"a node id or directory id occurs twice in {text}")
    return VoterSet.of(voters)


def _check_flags(
    config: Config,
    is_controller: bool,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
) -> None:
    flags = [
        flag
        for flag, given in (
            ("--standalone", standalone),
            ("--initial-controllers", initial_controllers is not None),
            ("--no-initial-controllers", no_initial_controllers),
        )
        if given
    ]
    if len(flags) > 1:
        raise ConfigError(f"{flags[0]} and {flags[1]} exclude each other")
    if config.voters and flags:
        raise ConfigError(
            f"{flags[0]} is for a quorum whose voters change at run time, "
            "but controller.quorum.voters fixes them",
            next_step=f"remove controller.quorum.voters from the configuration, or {flags[0]} from here",
        )
    if standalone and not is_controller:
        raise ConfigError("--standalone is for controllers, and process.roles has none")
    if is_controller and not config.voters and not flags:
        raise ConfigError(
            "controller.quorum.voters is not set, so it must be said who votes first",
            next_step="add --standalone, --initial-controllers or --no-initial-controllers",
        )


def _check_cluster_id(cluster_id: str) -> None:
    if not cluster_id or any(character.isspace() for character in cluster_id):
        raise ConfigError(
            f"{cluster_id!r} is no cluster id", next_step="make one with `barnabas storage random-uuid`"
        )


def _controller_listener(config: Config) -> str:
    """The listener on which controllers talk to each other: the first of controller.listener.names."""
    names = config.list("controller.listener.names")
    return names[0].upper() if names else "CONTROLLER"


def _own_endpoint(config: Config) -> Endpoint:
    """Where other controllers would dial this one: advertised, else as it listens, else localhost."""
    name = _controller_listener(config)
    own = next(endpoint for endpoint in config.controller_listeners if endpoint.listener == name)
    for advertised in config.advertised_listeners:
        if advertised.listener == own.listener:
            own = advertised
    return dialled(own)


def dialled(listening: Endpoint) -> Endpoint:
    """Where this host dials what listens there: every address is its own one, too."""
    return listening._replace(host="localhost") if listening.host in _WILDCARDS else listening


def _directories(config: Config) -> tuple[str, ...]:
    """Every directory once, the log directories first."""
    return tuple(dict.fromkeys((*config.log_dirs, config.metadata_log_dir)))
