"""Asks whether a quorum exists already, before a directory becomes a quorum of its own, and for advice.

A second quorum with the id of a live cluster accepts records that no other node has.  So `storage format
--standalone` asks the controllers in the properties whether they know a quorum of that cluster id.  A node
with an unformatted directory asks them how it should be formatted.  The node asks once more when it starts
(`raft.identity.first_look`).

The question is a Fetch of the metadata in epoch 0, as from a controller that knows nothing.  A controller
that knows an epoch, a leader or an origin belongs to a quorum.  One that waits for a quorum itself knows none
of them.
"""

from __future__ import annotations

import asyncio
from shlex import quote
from typing import NamedTuple

from barnabas.client.security.options import Security
from barnabas.config import Config
from barnabas.errors import BarnabasError, ConfigError, ErrorCode
from barnabas.model import NO_NODE, ZERO_UUID, ReplicaKey
from barnabas.raft.messages import FetchRequest, FetchResponse
from barnabas.server.kraft.codec.asking import request_out, response_in
from barnabas.server.loop.dialling import dial
from barnabas.server.net.secure.settings import controllers_security
from barnabas.wire.schemas.cluster import DescribeClusterRequest

__all__ = ["Existing", "existing_quorum", "format_advice", "refuse_second_quorum", "start_to_join"]

PATIENCE_S = 2.0
"""Seconds that all questions together may take."""
_CONTROLLERS = 2
"""Endpoint type of DescribeCluster (KIP-919)."""

Address = tuple[str, int]


class Existing(NamedTuple):
    """A controller that answers for a quorum."""

    host: str
    port: int
    cluster_id: str

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def controllers_of(config: Config) -> list[Address]:
    """The controllers that the properties name, this node itself excepted."""
    named = [(host, port) for _, host, port in config.voters if _ != config.node_id]
    for text in config.list("controller.quorum.bootstrap.servers"):
        host, _, port = text.rpartition(":")
        named.append((host.removeprefix("[").removesuffix("]"), int(port)))
    own = {
        (endpoint.host, endpoint.port)
        for endpoint in (*config.controller_listeners, *config.advertised_listeners)
    }
    return [address for address in dict.fromkeys(named) if address not in own]


async def existing_quorum(config: Config, cluster_id: str | None = None) -> Existing | None:
    """Ask all of them at once; one that answers for a quorum (of this cluster id, if one is given)."""
    security = controllers_security(config)
    asking = [
        asyncio.ensure_future(_ask(address, cluster_id, security)) for address in controllers_of(config)
    ]
    if not asking:
        return None
    try:
        for answered in asyncio.as_completed(asking, timeout=PATIENCE_S):
            if (found := await answered) is not None:
                return found
    except TimeoutError:
        pass
    finally:
        for one in asking:
            one.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
    return None


async def _ask(address: Address, cluster_id: str | None, security: Security) -> Existing | None:
    question = FetchRequest(0, ReplicaKey(NO_NODE, ZERO_UUID), 0, 0, max_wait=0.0, cluster_id=cluster_id)
    try:
        async with await dial(
            *address,
            client_id="barnabas-format",
            timeout=PATIENCE_S,
            connect_timeout=PATIENCE_S,
            security=security,
        ) as line:
            request, version = request_out(question, line.version_of)
            answer = response_in(await line.request(request, version), "")
            assert isinstance(answer, FetchResponse)
            if answer.error is ErrorCode.INCONSISTENT_CLUSTER_ID or not _of_a_quorum(answer):
                return None
            if cluster_id is None:
                described = await line.request(DescribeClusterRequest(endpoint_type=_CONTROLLERS))
                cluster_id = described.cluster_id
            return Existing(*address, cluster_id) if cluster_id else None
    except (BarnabasError, OSError):
        return None  # nobody there, another cluster, or no controller


def _of_a_quorum(answer: FetchResponse) -> bool:
    return answer.epoch > 0 or answer.leader_id >= 0 or answer.origin != ZERO_UUID


# ------------------------------------------------------------------ what comes of it


async def refuse_second_quorum(config: Config, cluster_id: str) -> None:
    """Raise ConfigError, with the way to join, where a quorum of this cluster id answers."""
    found = await existing_quorum(config, cluster_id)
    if found is not None:
        raise ConfigError(
            f"cluster {cluster_id} has a quorum already: a controller at {found.address} answers for it; "
            "--standalone would begin a second one",
            next_step=_to_join(config, found),
        )


async def format_advice(config: Config) -> str:
    """What to type, in full, to format a node that starts with this configuration and is not formatted."""
    found = await existing_quorum(config)
    if found is not None:
        return _to_join(config, found)
    file = quote(config.file or "FILE")
    missing = "(if there was data: is the disk mounted?)"
    if "controller" not in config.roles:
        return f"start the controllers first, then this node again: it will say how to format it {missing}"
    new = f"storage format -t $(barnabas storage random-uuid) -c {file}"
    if config.voters:
        return (
            f"no other controller answers: for a new cluster, run `barnabas {new}` on one voter and format the "
            f"others with the same cluster id; else start them first, then this node again {missing}"
        )
    return (
        "no other controller answers: if this is the first node of a new cluster, run "
        f"`barnabas {new} --standalone`; else start the others first, then this node again: it will say how to "
        f"join them {missing}"
    )


def start_to_join(config: Config, found: Existing) -> str:
    """What to type to let a node that is not formatted join that quorum."""
    return f"`barnabas start {quote(config.file or 'FILE')} --join {found.address}` joins it"


def _to_join(config: Config, found: Existing) -> str:
    file = quote(config.file or "FILE")
    form = f"storage format -t {quote(found.cluster_id)} -c {file}"
    if "controller" not in config.roles:
        return f"run `barnabas {form}` and start this node: it will serve cluster {found.cluster_id}"
    if config.voters:
        return (
            f"run `barnabas {form}` and start this node: it is a voter of cluster {found.cluster_id} (of one "
            "whose voters changed at run time since, see docs/controllers.md, 'A disk or a machine is lost')"
        )
    add = f"quorum --bootstrap-controller {found.address} --command-config {file} add-controller"
    return (
        f"run `barnabas {form} --no-initial-controllers`, start this node, then `barnabas {add}` makes it a voter "
        f"of cluster {found.cluster_id} (where its id is a voter already, with a disk that is lost, remove that "
        "entry first: see docs/controllers.md, 'A disk or a machine is lost')"
    )
