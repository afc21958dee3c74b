"""Decisions at random, ours against those of Apache Kafka's StandardAuthorizer, run from its jars.

Two deviations on purpose, which the draw therefore leaves out, and which have a test each: Kafka compares hosts as
text, we compare addresses; and in Kafka an ACL on "*" does not concern a group or transactional id whose own name
begins with an asterisk, so that a DENY is stepped over.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest
from tests.compat.conftest import KAFKA
from tools.peer import KAFKA_LIBS

from barnabas.security.acl import OPERATIONS, Acl, Operation, PatternType, Permission, ResourceType
from barnabas.security.authorizer import StandardAuthorizer

pytestmark = pytest.mark.compat

ORACLE = Path(__file__).parent / "apache" / "AclOracle.java"
NAMES = (
    "*",
    "a",
    "ab",
    "abc",
    "abd",
    "b",
    "ba",
    "orders",
    "orders-eu",
    "orders.eu",
    "é",
    "日本",
    "hardcode",
    "A",
)
PRINCIPALS = ("User:alice", "User:bob", "User:*", "Group:alice", "User:CN=Duke,O=Acme\\, Inc.", "User:a:b")
LOGINS = tuple(name for name in PRINCIPALS if name != "User:*")
"""(A login as `*` is an exception inside Kafka; here it has the rights of everybody.)"""
HOSTS = ("10.0.0.1", "10.0.0.2", "192.168.0.1")
RANGES = ("10.0.0.0/31", "10.9.9.9/8", "0.0.0.0/0", "::/0", "192.168.0.1/33")
"""The last one is none, and matches nobody."""
ENFORCES_RANGES = not any(KAFKA_LIBS.glob("kafka-clients-4.3.*"))
TYPES = tuple(OPERATIONS)


def oracle(lines: list[str]) -> list[bool]:
    """What Apache Kafka answers to lines as `AclOracle.java` describes them."""
    ran = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", f"-Dlog4j2.configurationFile=file:{KAFKA}/log4j2.properties",
         "-Dkafka.lab.level=error", "-cp", f"{KAFKA_LIBS}/*", str(ORACLE)],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [line == "1" for line in ran.stdout.split()]


def drawn(rng: random.Random) -> Acl:
    return Acl(
        rng.choice(TYPES[:4]),
        rng.choice(NAMES),
        rng.choice((PatternType.LITERAL, PatternType.LITERAL, PatternType.PREFIXED)),
        rng.choice(PRINCIPALS),
        rng.choice(("*", "*", *HOSTS, *(RANGES if ENFORCES_RANGES else ()))),
        rng.choice([op for op in Operation if op is not Operation.ANY]),
        rng.choice((Permission.ALLOW, Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def as_line(acl: Acl) -> str:
    return "\t".join(("acl", *(str(int(x)) if isinstance(x, int) else x for x in acl)))


def test_100000_decisions_are_those_of_apache_kafka(apache: Path) -> None:
    rng = random.Random(17)
    lines: list[str] = []
    ours: list[bool] = []
    asked: list[str] = []
    for world in range(400):
        everyone = rng.random() < 0.3
        supers = ("User:root", "Group:alice") if world % 5 == 0 else ("User:root",)
        authorizer = StandardAuthorizer(supers, allow_everyone=everyone)
        authorizer.loaded = True
        lines.append(f"world\t{';'.join(supers)}\t{str(everyone).lower()}")
        acls = dict.fromkeys(drawn(rng) for _ in range(rng.choice((0, 1, 3, 10, 60, 200))))
        for number, acl in enumerate(acls):  # (the same ACL twice is an exception inside Kafka)
            authorizer.put(number, acl)
            lines.append(as_line(acl))
        lines.append("load")
        for _ in range(225):
            principal = rng.choice((*LOGINS, "User:root", "User:ANONYMOUS"))
            host, type_ = rng.choice(HOSTS), rng.choice(TYPES[:4])
            operation = rng.choice(OPERATIONS[type_])
            name = rng.choice((*NAMES, "zzz", "abcd"))
            lines.append(f"ask\t{principal}\t{host}\t{int(operation)}\t{int(type_)}\t{name}")
            ours.append(authorizer.decide(principal, host, operation, type_, name).allowed)
            asked.append(lines[-1])
        for _ in range(25):
            principal = rng.choice((*LOGINS, "User:root"))
            host, type_ = rng.choice(HOSTS), rng.choice(TYPES[:4])
            operation = rng.choice(OPERATIONS[type_])
            lines.append(f"any\t{principal}\t{host}\t{int(operation)}\t{int(type_)}")
            ours.append(authorizer.decide_any(principal, host, operation, type_).allowed)
            asked.append(lines[-1])
    theirs = oracle(lines)
    assert len(theirs) == len(ours) == 100_000
    different = [(line, a, b) for line, a, b in zip(asked, ours, theirs, strict=True) if a != b]
    assert different == []
    assert 10_000 < sum(ours) < 90_000  # the draw is not one-sided


def test_kafka_compares_hosts_as_text_and_we_do_not(apache: Path) -> None:
    deny = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:*", "::1", Operation.READ, Permission.DENY)
    allow = deny._replace(host="*", permission=Permission.ALLOW)
    authorizer = StandardAuthorizer()
    authorizer.loaded = True
    authorizer.put(1, deny)
    authorizer.put(2, allow)
    ask = "ask\tUser:alice\t0:0:0:0:0:0:0:1\t3\t2\tt"
    assert oracle(["world\t\tfalse", as_line(deny), as_line(allow), "load", ask]) == [True]
    assert not authorizer.decide("User:alice", "0:0:0:0:0:0:0:1", Operation.READ, 2, "t").allowed


def test_a_name_that_begins_with_an_asterisk_does_not_step_over_the_wildcard(apache: Path) -> None:
    deny = Acl(ResourceType.GROUP, "*", PatternType.LITERAL, "User:*", "*", Operation.READ, Permission.DENY)
    allow = Acl(
        ResourceType.GROUP, "*a", PatternType.LITERAL, "User:bob", "*", Operation.READ, Permission.ALLOW
    )
    authorizer = StandardAuthorizer()
    authorizer.loaded = True
    authorizer.put(1, deny)
    authorizer.put(2, allow)
    ask = "ask\tUser:bob\t10.0.0.1\t3\t3\t*a"
    assert oracle(["world\t\tfalse", as_line(deny), as_line(allow), "load", ask]) == [True]
    assert not authorizer.decide("User:bob", "10.0.0.1", Operation.READ, ResourceType.GROUP, "*a").allowed
