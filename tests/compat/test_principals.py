"""Names of certificates and mapping rules at random, ours against Java's and Apache Kafka's, run from its jars."""

from __future__ import annotations

import base64
import random
import subprocess
from pathlib import Path

import pytest
from tests.client.certificates import NOW, named, x509
from tools.peer import KAFKA_LIBS

from barnabas.errors import ConfigError
from barnabas.security.certificate import read_certificate
from barnabas.security.principal import PrincipalRules

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.name import _ASN1Type
from cryptography.x509.oid import NameOID

pytestmark = pytest.mark.compat

ORACLE = Path(__file__).parent / "apache" / "PrincipalOracle.java"
KEY = ec.generate_private_key(ec.SECP256R1())
KINDS = (
    NameOID.COMMON_NAME,
    NameOID.ORGANIZATION_NAME,
    NameOID.ORGANIZATIONAL_UNIT_NAME,
    NameOID.LOCALITY_NAME,
    NameOID.STATE_OR_PROVINCE_NAME,
    NameOID.STREET_ADDRESS,
    NameOID.DOMAIN_COMPONENT,
    NameOID.USER_ID,
    NameOID.EMAIL_ADDRESS,
    NameOID.SERIAL_NUMBER,
    NameOID.TITLE,
    NameOID.SURNAME,
)
SIGNS = [*'aB7 ,+"<>;=#/.-é日_@*', "\\", "  ", "\r"]
PRINTABLE = frozenset("aB7 ,+=/.-")


def oracle(lines: list[str]) -> list[str | None]:
    """What Java and Apache Kafka answer to lines as `PrincipalOracle.java` describes them."""
    ran = subprocess.run(
        ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", f"{KAFKA_LIBS}/*", str(ORACLE)],
        input="\n".join(lines) + "\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-3000:]
    return [None if line == "-" else base64.b64decode(line[1:]).decode() for line in ran.stdout.split()]


def coded(data: bytes | str) -> str:
    return base64.b64encode(data.encode() if isinstance(data, str) else data).decode()


def drawn_certificate(rng: random.Random) -> bytes:
    parts = []
    for _ in range(rng.randint(1, 4)):
        attributes = []
        for kind in rng.sample(KINDS, rng.choice((1, 1, 1, 2))):
            text = "".join(rng.choice(SIGNS) for _ in range(rng.randint(1, 6)))
            type_ = _ASN1Type.UTF8String
            if kind in (NameOID.EMAIL_ADDRESS, NameOID.DOMAIN_COMPONENT) and text.isascii():
                type_ = _ASN1Type.IA5String
            elif rng.random() < 0.5 and set(text) <= PRINTABLE:
                type_ = _ASN1Type.PrintableString
            attributes.append(x509.NameAttribute(kind, text, _type=type_, _validate=False))
        parts.append(x509.RelativeDistinguishedName(attributes))
    name = x509.Name(parts)
    builder = x509.CertificateBuilder(named("x"), name, KEY.public_key(), 7, NOW, NOW)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.DER)


def test_two_thousand_names_are_spelled_as_java_does(apache: Path) -> None:
    rng = random.Random(17)
    certificates = [drawn_certificate(rng) for _ in range(2000)]
    answers = oracle([f"name\t{coded(der)}" for der in certificates])
    assert len(answers) == 2000
    for der, java in zip(certificates, answers, strict=True):
        assert java is None or read_certificate(der).subject == java
    assert sum(java is not None for java in answers) > 1900


PATTERNS = (
    "^CN=(.*?),OU=(.*?)$",
    "^CN=([a-z]*).*$",
    ".*",
    "CN=.*",
    "^(.*)O=(.*)$",
    "(CN|OU)=(.*)",
    "^.*[Cc][Nn]=([a-zA-Z.]*).*$",
    r"^CN=(.*),O=Acme\, Inc$",
    r"CN=(\w+)\/(\w+)",
    "x*",
    "(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)(k).*",
)
REPLACEMENTS = ("$1", "$2", "$1@$2", "x", "", "$9", "a$1b", r"\$1", "$11", "$10", "$0", r"a\/b", "$", r"x\\y")
NAMES = (
    "CN=ada,OU=x",
    "CN=ada",
    "CN=Ada.Lovelace,O=Acme,C=GB",
    r"CN=ada,O=Acme\, Inc",
    "OU=x,O=y",
    "CN=a/b",
    "abcdefghijklm",
    "CN=Zoë,OU=É",
    "",
    "CN=ada,OU=x,OU=y",
)


def drawn_rules(rng: random.Random) -> str:
    rules = []
    for _ in range(rng.randint(1, 3)):
        if rng.random() < 0.2:
            rules.append("DEFAULT")
        else:
            rules.append(
                f"RULE:{rng.choice(PATTERNS)}/{rng.choice(REPLACEMENTS)}/{rng.choice(('', '', 'L', 'U'))}"
            )
    return rng.choice((",", ", ", " , ")).join(rules)


def ours(rules: str, name: str) -> str | None:
    try:
        return PrincipalRules.parse(rules).name_of(name)
    except ConfigError:
        return None


def test_10000_rules_and_names_map_as_apache_kafka_does(apache: Path) -> None:
    """Where Kafka's mapper fails when a name comes (a group that is not there), our node does not start."""
    rng = random.Random(17)
    asked = [(drawn_rules(rng), rng.choice(NAMES)) for _ in range(10_000)]
    answers = oracle([f"map\t{coded(rules)}\t{coded(name)}" for rules, name in asked])
    wrong = []
    for (rules, name), kafka in zip(asked, answers, strict=True):
        found = ours(rules, name)
        if found != kafka:
            wrong.append((rules, name, found, kafka))
    assert not [w for w in wrong if w[2] is not None], wrong[:10]
    for rules, _, _, kafka in wrong:  # refused at the start, because a later rule of these could not be used
        with pytest.raises(ConfigError):
            PrincipalRules.parse(rules)
        assert kafka is not None
    assert sum(kafka is not None for kafka in answers) > 2000
