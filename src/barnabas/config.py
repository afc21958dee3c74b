"""A node's configuration, checked: `Config` for the node, `LogConfig` for one topic's logs.

`Config.load` takes the strings of a `server.properties` (or none at all) and reads them by the table in
`settings`. It refuses what is unknown, malformed, out of range or contradictory, with a line that names the
nearest valid setting.  It reads no files and no environment; its caller, which starts the process, does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from barnabas.errors import ConfigError
from barnabas.model import NodeId
from barnabas.settings import (
    KEPT_ONLY,
    MAX_INT,
    SETTINGS,
    TOPIC_SETTINGS,
    Setting,
    Value,
    in_topic_unit,
    node_names,
)
from barnabas.settings.listeners import (
    Voter,
    check_protocols,
    parsed_endpoint,
    parsed_voter,
    per_listener,
)
from barnabas.settings.log_config import NO_FLUSH, CompactionConfig, LogConfig
from barnabas.settings.table_access import check_access
from barnabas.settings.text import (
    config_table_markdown,
    format_value,
    limits_by_host,
    parse_properties,
    parse_value,
    refuse_unknown,
)

__all__ = [
    "NO_FLUSH",
    "SETTINGS",
    "TOPIC_SETTINGS",
    "CompactionConfig",
    "Config",
    "LogConfig",
    "Setting",
    "Voter",
    "config_table_markdown",
    "format_value",
    "limits_by_host",
    "needs_start",
    "parse_properties",
    "parse_value",
    "validate_topic_overrides",
]

Name: TypeAlias = str


_ATTRIBUTES = {
    "follower.replication.throttled.replicas": "follower_throttled",
    "leader.replication.throttled.replicas": "leader_throttled",
    "max.decompressed.message.bytes": "max_decompressed_bytes",
    "message.timestamp.type": "timestamp_type",
    "message.timestamp.before.max.ms": "timestamp_before_max_ms",
    "message.timestamp.after.max.ms": "timestamp_after_max_ms",
    "unclean.leader.election.enable": "unclean_leader_election",
}
"""Topic setting -> argument of LogConfig, where it is not the name with underscores."""

_LISTENER_DEFAULTS = {"broker": "PLAINTEXT://127.0.0.1:9092", "controller": "CONTROLLER://127.0.0.1:9093"}


class Config:
    """The settings of one node.  Made by `load`, never changed afterwards.

    `config["log.segment.bytes"]` and the typed readers `int`, `str`, ... take Kafka's names; an unknown
    name is a KeyError, because it is a mistake of the programmer.
    """

    __slots__ = (
        "_log_config",
        "_per_listener",
        "_values",
        "advertised_listeners",
        "controller_listeners",
        "file",
        "given",
        "listeners",
        "log_dirs",
        "metadata_log_dir",
        "node_id",
        "roles",
        "unused",
        "voters",
        "zero_config",
    )

    def __init__(
        self,
        values: dict[str, Value],
        given: dict[str, str],
        file: str | None = None,
        unused: Mapping[str, Sequence[Name]] | None = None,
    ) -> None:
        self._values = values
        self.file = file
        """Where it was read from, for advice; None: from no file."""
        self.unused = unused or {}
        """Given settings that have no effect, by the reason."""
        self.given: Mapping[str, str] = given
        self.zero_config = "process.roles" not in given
        self.node_id: NodeId = self.int("node.id")
        self.roles = frozenset(self.list("process.roles"))
        self.log_dirs: tuple[str, ...] = cast("tuple[str, ...]", values["log.dirs"]) or self.list("log.dir")
        if not self.log_dirs:
            raise ConfigError("log.dirs names no directory", next_step="write log.dirs=/path/to/data")
        self.metadata_log_dir = self.optional_str("metadata.log.dir") or self.log_dirs[0]
        endpoints = tuple(parsed_endpoint(text, "listeners") for text in self.list("listeners"))
        controllers = self.list("controller.listener.names")
        self.listeners = tuple(e for e in endpoints if e.listener not in controllers)
        self.controller_listeners = tuple(e for e in endpoints if e.listener in controllers)
        advertised = cast("tuple[str, ...] | None", values["advertised.listeners"]) or ()
        self.advertised_listeners = tuple(
            parsed_endpoint(text, "advertised.listeners") for text in advertised
        )
        self.voters = tuple(parsed_voter(text) for text in self.list("controller.quorum.voters"))
        self._per_listener = per_listener(given)
        self._log_config: LogConfig | None = None

    @classmethod
    def load(
        cls,
        properties: Mapping[str, str] | None = None,
        file: str | None = None,
    ) -> Config:
        """Check `properties` (Kafka's names) and fill in the defaults; `unused` names those without effect.

        Raises ConfigError, with the next step, for anything that cannot be meant.
        """
        given = {name: str(value).strip() for name, value in (properties or {}).items()}
        values: dict[str, Value] = {name: row.ours for name, row in SETTINGS.items()}
        problems: dict[str, ConfigError] = {}
        unused: dict[str, list[Name]] = {}
        for name, text in given.items():
            try:
                if (row := SETTINGS.get(name)) is not None:
                    values[name] = parse_value(row, text)
                elif not per_listener({name: text}) and (why := _why_unused(name, text)):
                    unused.setdefault(why, []).append(name)
            except ConfigError as error:
                problems[name] = error
        if problems:
            raise _all_of(problems)
        roles = cast("tuple[str, ...]", values["process.roles"])
        if "listeners" not in given:
            values["listeners"] = tuple(_LISTENER_DEFAULTS[role] for role in roles)
        config = cls(values, given, file, unused)
        _check_together(config)
        return config

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def is_given(self, name: str) -> bool:
        """Whether the value was set by whoever configured this node."""
        return name in self.given

    def protocol_of(self, listener: Name) -> Name | None:
        """`config.protocol_of("CLIENTS")` -> "SASL_PLAINTEXT"; None where the map does not name the listener."""
        pairs = (item.partition(":") for item in self.list("listener.security.protocol.map"))
        found = {name.upper(): protocol.upper() for name, _, protocol in pairs}
        return found.get(listener.upper()) or ("PLAINTEXT" if listener.upper() == "CONTROLLER" else None)

    def at(self, listener: Name) -> Config:
        """What holds at this listener: its own settings (`listener.name.NAME.`) before those of the node."""
        own = self._per_listener.get(listener.upper())
        return (
            self if own is None else Config({**self._values, **own}, dict(self.given), self.file, self.unused)
        )

    def is_given_for(self, listener: Name, name: Name) -> bool:
        """Whether this listener has the setting for itself."""
        return name in self._per_listener.get(listener.upper(), ())

    def is_open(self, listener: Name) -> bool:
        """Whether whoever comes by this listener is User:ANONYMOUS: no SASL, and no certificate is asked for."""
        protocol = self.protocol_of(listener)
        return protocol == "PLAINTEXT" or (
            protocol == "SSL" and self.at(listener)["ssl.client.auth"] == "none"
        )

    @property
    def between_nodes(self) -> tuple[Name, ...]:
        """The names of the listeners by which nodes reach each other."""
        brokers = (self.between_brokers,) if self.listeners else ()
        return (*self.list("controller.listener.names")[:1], *brokers)

    @property
    def between_brokers(self) -> Name:
        """The name of the listener by which brokers reach each other."""
        named = self.optional_str("inter.broker.listener.name")
        named = named or self.optional_str("security.inter.broker.protocol")
        return named.upper() if named else self.listeners[0].listener

    @property
    def inner_listeners(self) -> frozenset[Name]:
        """The names of the listeners that are there for nodes alone."""
        controllers = {endpoint.listener for endpoint in self.controller_listeners}
        return frozenset(controllers | ({self.between_brokers} if len(self.listeners) > 1 else set()))

    def with_changes(self, changes: Mapping[str, str]) -> Config:
        """Another configuration that differs from this one in `changes`."""
        return Config.load({**self.given, **changes})

    def with_stored(self, stored: Mapping[str, str]) -> tuple[Config, dict[str, str]]:
        """Return this configuration with what the cluster's metadata say of the node, and why some is left out.

        Settings that need a start, and those that are invalid alone or together with the ones before them, are
        left out; names of no setting are of no interest.
        """
        taken: dict[str, str] = {}
        refused: dict[str, str] = {}
        for name, text in stored.items():
            if needs_start(name):
                refused[name] = "it holds only where the node's own properties have it"
                continue
            if name not in SETTINGS:
                continue
            try:
                self.with_changes({**taken, name: text})
            except ConfigError as error:
                refused[name] = error.message
            else:
                taken[name] = text
        return (self.with_changes(taken) if taken else self), refused

    def topic_default(self, name: str) -> Value:
        """What a topic has for `name` when it says nothing itself."""
        for node_name in node_names(name):
            if (value := self._values[node_name]) is not None:
                return in_topic_unit(node_name, value)
        return TOPIC_SETTINGS[name].ours

    def log_config(self, overrides: Mapping[str, str | None] | None = None) -> LogConfig:
        """The settings of a topic with these overrides.  Raises ConfigError when one is invalid."""
        if not overrides:
            if self._log_config is None:
                self._log_config = self._build_log_config({})
            return self._log_config
        return self._build_log_config(overrides)

    def _build_log_config(self, overrides: Mapping[str, str | None]) -> LogConfig:
        parsed = _parse_overrides(overrides)
        given: dict[str, Any] = {}
        for name in TOPIC_SETTINGS:
            if name in KEPT_ONLY:
                continue
            value = parsed[name] if name in parsed else self.topic_default(name)
            if name == "cleanup.policy":
                value = frozenset(cast("tuple[str, ...]", value))  # type: ignore[assignment]
            given[_ATTRIBUTES.get(name) or name.replace(".", "_")] = value
        if (size := parsed.get("internal.segment.bytes")) is not None:
            given["segment_bytes"] = size
        return LogConfig(**given)

    def __repr__(self) -> str:
        return f"<Config node={self.node_id} roles={','.join(sorted(self.roles))} given={len(self.given)}>"

    # The typed readers come last: inside the class their names hide the types.

    def _typed(self, name: str, kinds: tuple[str, ...]) -> Value:
        value = self._values[name]
        assert SETTINGS[name].kind in kinds and value is not None, (
            f"{name} is {SETTINGS[name].kind}: {value!r}"
        )
        return value

    def optional_int(self, name: str) -> int | None:
        return cast("int | None", self._values[name])

    def optional_str(self, name: str) -> str | None:
        return cast("str | None", self._values[name])

    def float(self, name: str) -> float:
        return cast("float", self._typed(name, ("double",)))

    def bool(self, name: str) -> bool:
        return cast("bool", self._typed(name, ("boolean",)))

    def list(self, name: str) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self._typed(name, ("list",)))

    def int(self, name: str) -> int:
        return cast("int", self._typed(name, ("int", "short", "long")))

    def str(self, name: Name) -> Name:
        return cast("Name", self._typed(name, ("string",)))


_INTERNAL_SEGMENT = Setting("internal.segment.bytes", "int", None, None, "", low=1, high=MAX_INT)


def _parse_overrides(overrides: Mapping[str, str | None]) -> dict[str, Value]:
    parsed: dict[str, Value] = {}
    for name, text in overrides.items():
        if text is None:
            raise ConfigError(f"{name} has no value")
        row = TOPIC_SETTINGS.get(name) or (_INTERNAL_SEGMENT if name == _INTERNAL_SEGMENT.name else None)
        if row is not None:
            parsed[name] = parse_value(row, text)
            if name.endswith(".throttled.replicas"):
                _check_throttled(name, cast("tuple[str, ...]", parsed[name]))
            continue
        from barnabas.settings.unused import TOPIC_SETTINGS_NOT_USED  # rarely needed

        allowed = TOPIC_SETTINGS_NOT_USED.get(name)
        if allowed is None:
            refuse_unknown(name, TOPIC_SETTINGS, "topic setting")
        elif text.strip().lower() not in allowed:
            raise ConfigError(f"{name}={text} is known to Kafka and not supported by this release")
    return parsed


def _check_throttled(name: str, replicas: tuple[str, ...]) -> None:
    for replica in replicas if replicas != ("*",) else ():
        partition, _, broker = replica.partition(":")
        if not (partition.isdecimal() and broker.isdecimal()):
            raise ConfigError(f"{name}: {replica!r} is no replica; write partition:broker,... or *")


def validate_topic_overrides(overrides: Mapping[str, str | None]) -> None:
    """Raise ConfigError, with a text for the client, unless a topic can be made with these settings."""
    parsed = _parse_overrides(overrides)
    low, high = parsed.get("min.compaction.lag.ms"), parsed.get("max.compaction.lag.ms")
    if low is not None and high is not None and cast("int", low) > cast("int", high):
        raise ConfigError(f"min.compaction.lag.ms={low} is more than max.compaction.lag.ms={high}")


def _all_of(problems: Mapping[str, ConfigError]) -> ConfigError:
    """Return one error that names every problem, and every next step with the setting that it is for."""
    errors = list(problems.values())
    if len(errors) == 1:
        return errors[0]
    steps = [f"{name}: {error.next_step}" for name, error in problems.items() if error.next_step]
    return ConfigError(
        f"{len(errors)} settings cannot be used: {'; '.join(error.message for error in errors)}",
        next_step="; ".join(steps) or "correct each of them: docs/configuration.md",
    )


def _why_unused(name: str, text: str) -> str:
    """Return why a setting that is not ours has no effect; "" where a listener uses it.  Raises ConfigError."""
    from barnabas.settings.table_security import is_of_listener
    from barnabas.settings.unused import REFUSED, RETIRED, instead_of, known_to_kafka  # rarely needed

    if is_of_listener(name):
        return ""
    if (became := RETIRED.get(name)) is not None:
        return f"not used any more: {became}"
    if (instead := instead_of(name)) is not None:
        raise ConfigError(f"{name}: Kafka 4 has no such setting", next_step=instead)
    if not known_to_kafka(name):
        refuse_unknown(name, SETTINGS, "setting")
    if name in REFUSED and text not in REFUSED[name]:
        raise ConfigError(
            f"{name}={text} is not supported by this release, and ignoring it would not be safe",
            next_step=f"remove {name} to do without it",
        )
    return "known to Kafka, not used by this release"


def needs_start(name: str) -> bool:
    """Return whether a node takes this setting from its own properties alone, when it starts."""
    row = SETTINGS.get(name)
    return name.startswith("listener.name.") if row is None else row.update == "read-only"


def _check_together(config: Config) -> None:
    """What no single setting can say: roles, listeners and limits must fit each other."""
    _check_listeners(config)
    check_access(config._values, [name for name in config.between_nodes if config.is_open(name)])
    limits_by_host(config.list("max.connections.per.ip.overrides"))
    if len(set(config.log_dirs)) != len(config.log_dirs):
        raise ConfigError(f"log.dirs names a directory twice: {', '.join(config.log_dirs)}")
    if config.int("group.min.session.timeout.ms") > config.int("group.max.session.timeout.ms"):
        raise ConfigError("group.min.session.timeout.ms is more than group.max.session.timeout.ms")
    if config.int("broker.session.timeout.ms") <= config.int("broker.heartbeat.interval.ms"):
        raise ConfigError("broker.session.timeout.ms must be more than broker.heartbeat.interval.ms")
    size, budget = config.int("socket.request.max.bytes"), config.int("queued.max.request.bytes")
    if 0 <= budget < size:
        raise ConfigError(
            f"queued.max.request.bytes={budget} is less than one request (socket.request.max.bytes={size})",
            next_step="raise the first or lower the second",
        )
    if (
        "controller" not in config.roles
        and not config.voters
        and not config.list("controller.quorum.bootstrap.servers")
    ):
        raise ConfigError(
            "process.roles=broker needs controllers to ask",
            next_step="set controller.quorum.bootstrap.servers, or process.roles=broker,controller",
        )
    if config.voters and "controller" in config.roles and config.node_id not in {v[0] for v in config.voters}:
        raise ConfigError(f"node.id={config.node_id} is not among controller.quorum.voters")


def _check_listeners(config: Config) -> None:
    everything = (*config.listeners, *config.controller_listeners)
    names = [endpoint.listener for endpoint in everything]
    ports = [endpoint.port for endpoint in everything if endpoint.port]
    if len(set(names)) != len(names):
        raise ConfigError("listeners: each listener needs a name of its own")
    if len(set(ports)) != len(ports):
        raise ConfigError("listeners: each listener needs a port of its own")
    if "controller" in config.roles and not config.controller_listeners:
        wanted = config.list("controller.listener.names")
        raise ConfigError(
            "process.roles has controller, but listeners has none of controller.listener.names "
            f"({', '.join(wanted)})",
            next_step=f"add {wanted[0] if wanted else 'CONTROLLER'}://127.0.0.1:9093 to listeners",
        )
    if "controller" not in config.roles and config.controller_listeners:
        raise ConfigError("listeners has a controller listener, but process.roles has no controller")
    if "broker" in config.roles and not config.listeners:
        raise ConfigError("process.roles has broker, but listeners has nothing but controller listeners")
    check_protocols((name, config.protocol_of(name)) for name in names)
    for endpoint in config.advertised_listeners:
        if endpoint.listener not in names:
            raise ConfigError(f"advertised.listeners: there is no listener {endpoint.listener}")
        if endpoint.host in ("", "0.0.0.0", "::"):
            raise ConfigError(f"advertised.listeners: {endpoint} is no address a client can dial")
    for setting in ("inter.broker.listener.name", "security.inter.broker.protocol"):
        inter = config.optional_str(setting)
        if inter is not None and inter.upper() not in [endpoint.listener for endpoint in config.listeners]:
            raise ConfigError(f"{setting}: there is no listener {inter}")
    if config.is_given("inter.broker.listener.name") and config.is_given("security.inter.broker.protocol"):
        raise ConfigError(
            "inter.broker.listener.name and security.inter.broker.protocol name the same thing",
            next_step="remove the second",
        )
