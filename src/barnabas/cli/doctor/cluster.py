"""The cluster behind a listener: its levels, the addresses of its brokers, and brokers of both kinds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address

from barnabas.cli.doctor.coordinators import examine_counts
from barnabas.cli.doctor.descriptors import examine_descriptors
from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.line import Address, connect, dial
from barnabas.cli.doctor.share_groups import Kinds, examine_share_groups, topics_by_group
from barnabas.client.security.options import Security
from barnabas.controller.feature_levels import (
    METADATA_VERSION,
    NEWER_RELEASE,
    level_text,
    supported,
    unknown_level,
)
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.settings.coordinator_topics import ASKED, is_ours, kafkas_counts
from barnabas.wire.broker_settings import request_of, values_of
from barnabas.wire.schemas.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    MetadataRequest,
    MetadataResponseTopic,
)

__all__ = ["examine_cluster", "examine_levels", "is_this_machine"]

_MOST_TRIED = 20
_ALTER = 7
"""The bit of the cluster's operations that says: who asks may change it."""


def examine_cluster(address: Address, security: Security, found: Findings) -> None:
    """Look at the cluster behind the listener, and the addresses that it sends its clients to."""
    try:
        with connect(address, security) as connection:
            levels = connection.finalized
            examine_levels(levels, found)
            answer = connection.request(DescribeClusterRequest(include_cluster_authorized_operations=True))
            if answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
                answer = connection.request(DescribeClusterRequest(endpoint_type=2))
                found.ok("cluster", f"id {answer.cluster_id}; a listener of controllers")
                return
            topics = connection.request(MetadataRequest(topics=None)).topics
    except BarnabasError as error:
        found.fail("cluster", str(error), error.next_step or "see the node's log")
        return
    if answer.error_code != ErrorCode.NONE:
        found.fail("cluster", ErrorCode(answer.error_code).name, "see the node's log")
        return
    found.ok("cluster", f"id {answer.cluster_id}, brokers: {len(answer.brokers)}")
    _examine_brokers(address, security, answer.brokers, topics, levels.get("share.version", 0), found)
    operations = answer.cluster_authorized_operations
    shown = [topic for topic in topics if topic.error_code == ErrorCode.NONE]
    if shown:
        found.ok("rights", f"{len(shown)} topics can be seen")
    elif operations in (0, -(2**31)):
        found.warn(
            "rights",
            "no topic can be seen: there is none, or a right is missing (DESCRIBE on topics)",
            "`barnabas acls why` shows an administrator what was refused, with the command that allows it",
        )
    else:
        found.ok("rights", "no topic yet")
    nobody = security.sasl is None and not (
        security.tls and (security.tls.cert_file or security.tls.cert_pem)
    )
    if nobody and operations > 0 and operations >> _ALTER & 1 and not is_this_machine(address.host):
        found.warn(
            "open to all",
            "whoever reaches this listener may do everything, without a login",
            "give the listener a login and its node an authorizer, or listen on 127.0.0.1",
        )


def _examine_brokers(
    address: Address,
    security: Security,
    brokers: Sequence[DescribeClusterBroker],
    topics: Sequence[MetadataResponseTopic],
    share_level: int,
    found: Findings,
) -> None:
    """Look at each broker by itself, and at what brokers of both kinds mean for each other."""
    hosted = Counter(node for topic in topics for one in topic.partitions for node in one.replica_nodes)
    ours: set[int] = set()
    kafkas: dict[int, dict[str, int]] = {}
    groups: dict[str, set[str]] = {}
    for broker in brokers[:_MOST_TRIED]:
        at = Address(broker.host, broker.port, address.timeout)
        if not _examine_advertised(broker.broker_id, at, found):
            continue
        examine_descriptors(broker.broker_id, at, hosted[broker.broker_id], found)
        with suppress(BarnabasError), connect(at, security) as connection:
            told = values_of(connection.request(request_of(broker.broker_id, ASKED)))
            if is_ours(told):
                ours.add(broker.broker_id)
            elif counts := kafkas_counts(told):
                kafkas[broker.broker_id] = counts
                if share_level:
                    groups.update(topics_by_group(connection))
    by_name = {topic.name: topic for topic in topics if topic.name}
    examine_counts({name: len(topic.partitions) for name, topic in by_name.items()}, kafkas, found)
    examine_share_groups(share_level, groups, by_name, Kinds(ours, kafkas), found)


def examine_levels(levels: Mapping[str, int], found: Findings) -> None:
    """Say whether a node of this release could join a cluster that has finalized these levels."""
    if not levels:
        return
    if why := unknown_level(supported(), levels):
        found.warn("levels", f"a node of this release cannot join: it {why}", NEWER_RELEASE)
        return
    level = level_text(METADATA_VERSION, levels.get(METADATA_VERSION, 0))
    found.ok("levels", f"{METADATA_VERSION} is at {level}; a node of this release can join")


def is_this_machine(host: str) -> bool:
    """Return whether only this machine reaches that address."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _examine_advertised(number: int, told: Address, found: Findings) -> bool:
    check = f"broker {number}"
    try:
        dial(told).close()
    except OSError as error:
        why = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        found.fail(
            check,
            f"it sends clients to {told}, where it cannot be reached from here ({why})",
            "set advertised.listeners of that broker to an address that clients reach",
        )
        return False
    found.ok(check, f"{told} can be reached")
    return True
