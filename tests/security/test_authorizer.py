"""The rules of the authorizer, one by one; `tests/compat/test_authorizer.py` asks Apache Kafka for the rest."""

from __future__ import annotations

import random

import pytest

from barnabas.security.acl import (
    CLUSTER_NAME,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from barnabas.security.authorizer import StandardAuthorizer
from barnabas.security.hosts import address_range, is_address, matches_host, plain_host

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALICE, HERE = "User:alice", "10.0.0.1"


def acl(
    operation: Operation,
    name: str = "orders",
    *,
    who: str = ALICE,
    deny: bool = False,
    prefix: bool = False,
    host: str = "*",
    resource: ResourceType = TOPIC,
) -> Acl:
    permission = Permission.DENY if deny else Permission.ALLOW
    return Acl(resource, name, PREFIXED if prefix else LITERAL, who, host, operation, permission)


def with_acls(*acls: Acl, supers: tuple[str, ...] = (), everyone: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(supers, allow_everyone=everyone)
    authorizer.loaded = True
    for number, one in enumerate(acls):
        authorizer.put(number, one)
    return authorizer


def may(authorizer: StandardAuthorizer, operation: Operation, name: str = "orders", who: str = ALICE) -> bool:
    return authorizer.decide(who, HERE, operation, TOPIC, name).allowed


def test_a_deny_ends_it_whatever_else_allows() -> None:
    authorizer = with_acls(
        acl(Operation.READ),
        acl(Operation.ALL, "*", who="User:*"),
        acl(Operation.READ, "ord", prefix=True, deny=True),
    )
    assert not may(authorizer, Operation.READ)
    assert may(authorizer, Operation.WRITE)


def test_a_super_user_is_not_held_by_a_deny() -> None:
    authorizer = with_acls(acl(Operation.ALL, deny=True), supers=(ALICE,))
    assert may(authorizer, Operation.READ)


def test_before_the_metadata_is_loaded_only_super_users_pass() -> None:
    authorizer = with_acls(acl(Operation.READ), supers=("User:root",), everyone=True)
    authorizer.loaded = False
    assert not may(authorizer, Operation.READ)
    assert may(authorizer, Operation.READ, who="User:root")


@pytest.mark.parametrize("given", [Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER])
def test_what_one_may_do_to_a_topic_one_may_describe(given: Operation) -> None:
    assert may(with_acls(acl(given)), Operation.DESCRIBE)
    assert not may(with_acls(acl(given)), Operation.DESCRIBE_CONFIGS)


def test_a_deny_implies_nothing() -> None:
    authorizer = with_acls(acl(Operation.READ, deny=True), acl(Operation.DESCRIBE))
    assert may(authorizer, Operation.DESCRIBE)


def test_who_may_alter_settings_may_see_them() -> None:
    assert may(with_acls(acl(Operation.ALTER_CONFIGS)), Operation.DESCRIBE_CONFIGS)
    assert not may(with_acls(acl(Operation.ALTER_CONFIGS)), Operation.DESCRIBE)


def test_allow_everyone_counts_only_for_resources_without_any_acl() -> None:
    authorizer = with_acls(acl(Operation.READ, who="User:bob"), everyone=True)
    assert not may(authorizer, Operation.READ)
    assert may(authorizer, Operation.READ, "payments")


def test_an_ipv4_client_of_a_dual_stack_socket_meets_the_deny_for_its_address() -> None:
    """Compared as text, "::ffff:10.0.0.1" would step over it."""
    authorizer = with_acls(acl(Operation.READ), acl(Operation.READ, host="10.0.0.1", deny=True))
    assert not authorizer.decide(ALICE, "::ffff:10.0.0.1", Operation.READ, TOPIC, "orders").allowed
    assert authorizer.decide(ALICE, "10.0.0.2", Operation.READ, TOPIC, "orders").allowed


@pytest.mark.parametrize("spelling", ["::1", "0:0:0:0:0:0:0:1", "0000::0001", "::1%lo"])
def test_the_loopback_of_ipv6_is_one_address_however_it_is_spelled(spelling: str) -> None:
    assert plain_host(spelling) == "::1"
    assert is_address(spelling)
    assert not is_address("db.example.com")


def test_a_deny_for_a_range_refuses_every_address_in_it() -> None:
    """Taken, listed and not enforced, it would be a door that its owner believes to be shut."""
    authorizer = with_acls(
        acl(Operation.READ), acl(Operation.READ, host="10.0.0.0/30", deny=True), acl(Operation.WRITE, "x")
    )
    for host in ("10.0.0.0", "10.0.0.3", "::ffff:10.0.0.2"):
        assert not authorizer.decide(ALICE, host, Operation.READ, TOPIC, "orders").allowed
        assert not authorizer.decide_any(ALICE, host, Operation.READ, TOPIC).allowed
    for host in ("10.0.0.4", "::1"):
        assert authorizer.decide(ALICE, host, Operation.READ, TOPIC, "orders").allowed
        assert authorizer.decide_any(ALICE, host, Operation.READ, TOPIC).allowed


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        ("10.1.2.3/8", "10.255.255.255", "11.0.0.1"),
        ("010.0.0.0/08", "10.0.0.1", "8.0.0.1"),
        ("0.0.0.0/0", "255.255.255.255", "::1"),
        ("10.0.0.1/32", "10.0.0.1", "10.0.0.0"),
        ("2001:DB8::5/32", "2001:db8:0:0:0:0:0:9", "2001:db9::"),
        ("[::1]/128", "0:0:0:0:0:0:0:1", "::2"),
        ("::/0", "fe80::2%lo", "127.0.0.1"),
        ("fe80::1%1/64", "fe80::2", "fe81::"),
        ("::1/+5", "::1", "8000::"),
    ],
)
def test_ranges_mean_what_apache_kafka_means_by_them(pattern: str, inside: str, outside: str) -> None:
    """Asked of Kafka 4.4.0's CidrUtils, one by one."""
    address_range(pattern)
    assert matches_host(pattern, inside)
    assert not matches_host(pattern, outside)


@pytest.mark.parametrize(
    "text",
    [
        "10.0.0.0/33",
        "10.0.0/8",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/",
        "/8",
        "2001:db8::/129",
        "::ffff:10.0.0.0/104",
        "fe80::1%lo/64",
        "10.0.0.0/8/9",
        "*/8",
        "300.0.0.0/8",
        "host:/8",
        "10.0.0.0/-1",
        "10.0.0.0/000",
        "::1/0x5",
        "10.0.0.0/٨",
    ],
)
def test_what_apache_kafka_takes_for_no_range_is_none_and_matches_nobody(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address_range(text)
    assert not matches_host(text, HERE)


def test_a_prefix_of_topics_does_not_open_groups() -> None:
    """Redpanda's issue 1579: the prefix of one type of resource served another."""
    authorizer = with_acls(acl(Operation.READ, "ord", prefix=True))
    assert may(authorizer, Operation.READ)
    assert not authorizer.decide(ALICE, HERE, Operation.READ, GROUP, "orders").allowed


def test_any_topic_is_not_one_that_a_deny_covers() -> None:
    def any_topic(*acls: Acl) -> bool:
        return with_acls(*acls).decide_any(ALICE, HERE, Operation.WRITE, TOPIC).allowed

    allow = acl(Operation.WRITE)
    assert any_topic(allow)
    assert not any_topic()
    assert not any_topic(acl(Operation.READ))
    assert not any_topic(allow, acl(Operation.WRITE, deny=True))
    assert not any_topic(allow, acl(Operation.ALL, "or", prefix=True, deny=True))
    assert not any_topic(allow, acl(Operation.WRITE, "*", deny=True))
    assert any_topic(allow, acl(Operation.WRITE, "other", deny=True))
    assert any_topic(acl(Operation.WRITE, "*"), acl(Operation.WRITE, deny=True))


def test_removing_one_acl_leaves_the_others_as_a_fresh_set_has_them() -> None:
    """CVE-2024-27309: removing one ACL of a resource forgot others."""
    rng = random.Random(27309)
    acls = [
        acl(
            rng.choice((Operation.READ, Operation.WRITE, Operation.ALL)),
            rng.choice(("a", "ab", "abc", "*", "b")),
            who=rng.choice((ALICE, "User:*", "User:bob")),
            deny=rng.random() < 0.3,
            prefix=rng.random() < 0.5,
        )
        for _ in range(30)
    ]
    for gone in range(len(acls)):
        authorizer = with_acls(*acls)
        before = authorizer.generation
        authorizer.remove(gone)
        assert authorizer.generation > before
        fresh = with_acls(*acls[:gone], *acls[gone + 1 :])
        for operation in (Operation.READ, Operation.WRITE, Operation.DESCRIBE):
            for name in ("a", "ab", "abcd", "b", "c"):
                for who in (ALICE, "User:bob", "User:carol"):
                    assert (
                        authorizer.decide(who, HERE, operation, TOPIC, name).allowed
                        == fresh.decide(who, HERE, operation, TOPIC, name).allowed
                    )
                    assert (
                        authorizer.decide_any(who, HERE, operation, TOPIC).allowed
                        == fresh.decide_any(who, HERE, operation, TOPIC).allowed
                    )
    for number in range(len(acls)):
        authorizer = with_acls(*acls)
        for other in range(len(acls)):
            if other != number:
                authorizer.remove(other)
        assert list(authorizer.found(AclFilter())) == [acls[number]]


def test_a_filter_that_matches_finds_what_concerns_a_name() -> None:
    acls = [acl(Operation.READ, "orders"), acl(Operation.READ, "ord", prefix=True), acl(Operation.READ, "*")]
    authorizer = with_acls(*acls, acl(Operation.READ, "other"), acl(Operation.READ, "orders-eu", prefix=True))
    assert list(authorizer.found(AclFilter(TOPIC, "orders", PatternType.MATCH))) == acls
    assert list(authorizer.found(AclFilter(TOPIC, "ord", PREFIXED))) == [acls[1]]
    assert list(authorizer.found(AclFilter(TOPIC, "orders"))) == [acls[0]]


def test_a_decision_names_the_acl_that_made_it() -> None:
    authorizer = with_acls(acl(Operation.READ, host="10.0.0.1"))
    assert str(authorizer.decide(ALICE, HERE, Operation.READ, TOPIC, "orders")) == (
        "ALLOW User:alice READ on TOPIC:LITERAL:orders from 10.0.0.1"
    )
    decision = authorizer.decide(ALICE, HERE, Operation.CLUSTER_ACTION, CLUSTER, CLUSTER_NAME)
    assert not decision.allowed and "no ACL allows this" in str(decision)


def test_a_decision_among_many_acls_looks_at_few_of_them() -> None:
    """10,000 ACLs on one topic, for as many users: those of others are not walked through."""
    authorizer = with_acls(*(acl(Operation.READ, who=f"User:u{n}") for n in range(10_000)))
    bucket = authorizer._literal[TOPIC, "orders"]
    assert max(len(entries) for entries in bucket.values()) == 1
    assert may(authorizer, Operation.READ, who="User:u9999")
    assert not may(authorizer, Operation.READ, who="User:x")
