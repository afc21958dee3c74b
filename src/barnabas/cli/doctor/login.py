"""The login that a listener asks for, this client's, and what of the cluster it reaches then."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address

from barnabas.cli.doctor.coordinators import examine_counts
from barnabas.cli.doctor.descriptors import examine_descriptors
from barnabas.cli.doctor.findings import Findings
from barnabas.cli.doctor.line import Address, dial
from barnabas.cli.doctor.share_groups import examine_share_groups, topics_by_group
from barnabas.cli.doctor.share_state import Kinds, examine_share_state
from barnabas.client.blocking import BlockingConnection
from barnabas.client.connection import ConnectionFailed
from barnabas.client.security.options import Security
from barnabas.controller.feature_levels import (
    METADATA_VERSION,
    NEWER_RELEASE,
    level_text,
    supported,
    unknown_level,
)
from barnabas.errors import BarnabasError, ErrorCode
from barnabas.model import SHARE_STATE_TOPIC
from barnabas.settings.coordinator_topics import ASKED, is_ours, kafkas_counts
from barnabas.wire.broker_settings import request_of, values_of
from barnabas.wire.schemas.cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    MetadataRequest,
    MetadataResponseTopic,
)
from barnabas.wire.schemas.sasl import SaslHandshakeRequest

__all__ = [
    "examine_cluster",
    "examine_levels",
    "examine_login",
    "examine_mechanisms",
    "examine_versions",
    "is_this_machine",
]

_PROBE = "barnabas-doctor"
"""A mechanism that nobody has: a listener that asks for a login answers with those that it takes."""

_MOST_TRIED = 20
_ALTER = 7
"""The bit of the cluster's operations that says: who asks may change it."""


def _connect(address: Address, security: Security) -> BlockingConnection:
    return BlockingConnection(
        address.host,
        address.port,
        client_id=_PROBE,
        timeout=address.timeout,
        connect_timeout=address.timeout,
        security=security,
    )


def examine_versions(address: Address, security: Security, found: Findings) -> bool:
    """Check the client's certificate, and the versions of the protocol."""
    tls = security.tls
    shows = tls is not None and bool(tls.cert_file or tls.cert_pem)
    try:
        with _connect(address, Security(tls)) as connection:
            for_clients = connection.serves(MetadataRequest)
    except BarnabasError as error:
        said = str(error).removeprefix(f"{address}: ")
        if tls is None:
            found.fail("ApiVersions", said, error.next_step or "see the node's log")
        elif not shows:
            found.fail(
                "client certificate",
                f"the listener ends the connection after the handshake: it may ask for a certificate, and we "
                f"show none ({said})",
                "set ssl.keystore.location in --command-config; the node's log (tls.refused) says whether it asks",
            )
        else:
            found.fail(
                "client certificate",
                f"the listener does not take ours ({said})",
                "use one that is signed by an authority of the listener's ssl.truststore.location; the node's log "
                "(tls.refused) says what it does not like",
            )
        return False
    if tls is not None:
        found.ok("client certificate", "ours is taken, or not asked for" if shows else "not required")
    found.ok(
        "ApiVersions",
        "answered" + ("" if for_clients else "; a listener of controllers, which serves no clients"),
    )
    return True


def examine_mechanisms(address: Address, security: Security, found: Findings) -> bool:
    """Return whether a login is asked for, and whether ours is one of those that are taken."""
    wanted = "" if security.sasl is None else security.sasl.mechanism
    try:
        with _connect(address, Security(security.tls)) as connection:
            answer = connection.request(SaslHandshakeRequest(mechanism=wanted or _PROBE))
    except BarnabasError as error:
        if not wanted:
            found.ok("login", "none is asked for (it serves no SaslHandshake)")
            return True
        found.fail("mechanisms", str(error), error.next_step or "see the node's log")
        return False
    offered = ", ".join(sorted(answer.mechanisms)[:10]) or "none"
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        if not wanted:
            found.ok("login", "none is asked for")
            return True
        protocol = "PLAINTEXT" if security.tls is None else "SSL"
        found.fail(
            "mechanisms",
            "the listener asks for no login, and --command-config has one",
            f"set security.protocol={protocol}, or dial the listener with SASL",
        )
    elif not wanted:
        protocol = "SASL_PLAINTEXT" if security.tls is None else "SASL_SSL"
        found.fail(
            "login",
            f"the listener asks for a login ({offered}), and none is given",
            f"give --command-config with security.protocol={protocol}, sasl.mechanism and sasl.jaas.config",
        )
    elif answer.error_code != ErrorCode.NONE:
        found.fail(
            "mechanisms",
            f"the listener does not take {wanted}; it takes {offered}",
            "set sasl.mechanism to one of these, or add ours to sasl.enabled.mechanisms of the listener",
        )
    else:
        found.ok("mechanisms", f"{wanted} is taken" + (f" (of {offered})" if answer.mechanisms else ""))
        return True
    return False


def examine_login(address: Address, security: Security, found: Findings) -> bool:
    """Check the login itself."""
    sasl = security.sasl
    if sasl is None:
        return True
    who = sasl.username or sasl.client_id or "the token"
    try:
        _connect(address, security).close()
    except BarnabasError as error:
        said = str(error).removeprefix(f"{address}: ")
        if sasl.mechanism == "OAUTHBEARER":
            found.fail(
                "login", said, "check the token: issuer, audience, expiry, and the clocks of both sides"
            )
        elif isinstance(error, ConnectionFailed):
            found.fail("login", said, error.next_step or "see the node's log")
        else:
            found.fail(
                "login",
                f"{who} is not let in: there is no such user, or the password is another ({said})",
                "check both; the node's log (login.refused) says which, `barnabas users list` shows who there is",
            )
        return False
    found.ok("login", f"{who} is logged in with {sasl.mechanism}")
    return True


def examine_cluster(address: Address, security: Security, found: Findings) -> None:
    """Look at the cluster behind the listener, and the addresses that it sends its clients to."""
    try:
        with _connect(address, security) as connection:
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
        with suppress(BarnabasError), _connect(at, security) as connection:
            told = values_of(connection.request(request_of(broker.broker_id, ASKED)))
            if is_ours(told):
                ours.add(broker.broker_id)
            elif counts := kafkas_counts(told):
                kafkas[broker.broker_id] = counts
                if share_level:
                    groups.update(topics_by_group(connection))
    partitions = {topic.name: topic.partitions for topic in topics if topic.name}
    examine_counts({name: len(parts) for name, parts in partitions.items()}, kafkas, found)
    kinds = Kinds(ours, kafkas)
    examine_share_state(share_level, partitions.get(SHARE_STATE_TOPIC), kinds, found)
    examine_share_groups(groups, partitions, kinds, found)


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
