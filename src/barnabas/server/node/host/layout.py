"""The properties of several nodes on one host, derived from those of one.

ids           node.id, node.id + 1, ...
ports         those of the listeners, moved on by as many for each node as keeps them apart
directories   LOG.DIR/ID for each of log.dirs
roles         the first three are brokers and controllers, or the first alone where there are fewer; the
              others are brokers
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from barnabas.config import Config
from barnabas.errors import ConfigError
from barnabas.model import Endpoint, NodeId
from barnabas.server.node.format import dialled

__all__ = ["HostNode", "lay_out"]

CONTROLLERS = 3
"""A quorum of two would stop when either stops, so fewer nodes than three have one controller."""
MOST_NODES = 100


class HostNode(NamedTuple):
    """One of the nodes.  `properties` are laid over those of the file."""

    id: NodeId
    properties: Mapping[str, str]
    directories: tuple[str, ...]
    controller: str
    """Where its controller is reached, "host:port"; "" where it has none."""


def lay_out(config: Config, count: int) -> list[HostNode]:
    """The nodes of this host.  Raises ConfigError where `config` does not say enough, or too much, for that."""
    _check(config, count)
    controllers = CONTROLLERS if count >= CONTROLLERS else 1
    step = _step([e.port for e in (*config.listeners, *config.controller_listeners)], count)
    nodes = [_node(config, place, place < controllers, step, count) for place in range(count)]
    servers = {"controller.quorum.bootstrap.servers": ",".join(one.controller for one in nodes[:controllers])}
    return [one._replace(properties={**one.properties, **servers}) for one in nodes]


def _check(config: Config, count: int) -> None:
    if not 1 <= count <= MOST_NODES:
        raise ConfigError(
            f"--nodes {count}: between 1 and {MOST_NODES} nodes fit on a host",
            next_step="--nodes auto starts one for each core",
        )
    if config.roles != {"broker", "controller"}:
        raise ConfigError(
            f"--nodes derives the roles of its nodes, and process.roles is {','.join(sorted(config.roles))}",
            next_step="leave process.roles out, or set process.roles=broker,controller",
        )
    for name in ("controller.quorum.voters", "controller.quorum.bootstrap.servers"):
        if config.is_given(name):
            raise ConfigError(
                f"--nodes makes a cluster of its own, and {name} names another one's controllers",
                next_step=f"leave {name} out, or start the nodes one by one: barnabas start FILE",
            )
    if any(endpoint.port == 0 for endpoint in (*config.listeners, *config.controller_listeners)):
        raise ConfigError(
            "--nodes derives the ports of its nodes, and listeners has port 0", next_step="name the ports"
        )


def _node(config: Config, place: int, is_controller: bool, step: int, count: int) -> HostNode:
    id_ = config.node_id + place
    moved = _moved(config.controller_listeners, place * step) if is_controller else ()
    properties = {
        "process.roles": "broker,controller" if is_controller else "broker",
        "node.id": str(id_),
        "listeners": _text((*_moved(config.listeners, place * step), *moved)),
        "controller.listener.names": ",".join(config.list("controller.listener.names")),
        "controller.quorum.auto.join.enable": "true",
        "barnabas.events.node": "true",
        "log.dirs": ",".join(f"{directory}/{id_}" for directory in config.log_dirs),
    }
    served = {endpoint.listener for endpoint in (*config.listeners, *moved)}
    if advertised := [one for one in config.advertised_listeners if one.listener in served]:
        properties["advertised.listeners"] = _text(_moved(advertised, place * step))
    if config.is_given("metadata.log.dir"):
        properties["metadata.log.dir"] = f"{config.metadata_log_dir}/{id_}"
    if http := config.optional_str("barnabas.http.listener"):
        host, _, port = http.rpartition(":")
        properties["barnabas.http.listener"] = f"{host}:{int(port) + place}"
    for name, value in _copies(count).items():
        if not config.is_given(name):
            properties[name] = value
    directories = properties["log.dirs"].split(",")
    if "metadata.log.dir" in properties:
        directories.append(properties["metadata.log.dir"])
    return HostNode(id_, properties, tuple(dict.fromkeys(directories)), _address(moved))


def _copies(count: int) -> dict[str, str]:
    """Positions and transactions outlive the end of any one process without a pause."""
    copies, enough = str(min(3, count)), str(min(2, count))
    return {
        "offsets.topic.replication.factor": copies,
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.min.isr": enough,
    }


def _step(ports: Iterable[int], count: int) -> int:
    """How far the ports of one node are from those of the next."""
    own = set(ports)
    for step in range(1, 65536):
        if len({port + place * step for port in own for place in range(count)}) == len(own) * count:
            break
    last = max(own) + (count - 1) * step
    if last > 65535:
        raise ConfigError(
            f"--nodes {count} takes ports up to {last}, and 65535 is the last there is",
            next_step="let listeners begin at lower ports",
        )
    return step


def _address(controllers: tuple[Endpoint, ...]) -> str:
    if not controllers:
        return ""
    return str(dialled(controllers[0])).partition("://")[2]


def _moved(endpoints: Iterable[Endpoint], by: int) -> tuple[Endpoint, ...]:
    return tuple(endpoint._replace(port=endpoint.port + by) for endpoint in endpoints)


def _text(endpoints: Iterable[Endpoint]) -> str:
    return ",".join(map(str, endpoints))
