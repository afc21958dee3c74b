"""Kafka's option names for TLS and SASL: what is read, what is refused, and that no secret shows."""

from __future__ import annotations

import pickle
import sys

import pytest

from barnabas.client.security.options import Security
from barnabas.errors import ConfigError
from barnabas.security.jaas import parse_jaas

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}


def test_a_jaas_line_is_read_as_java_reads_it() -> None:
    entry = parse_jaas(f'{SCRAM} required\n  username="ada" password="a \\"b\\" \\\\ ;=c" x=y;')
    assert entry.family == "SCRAM"
    assert entry.options == {"username": "ada", "password": 'a "b" \\ ;=c', "x": "y"}


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (
            "com.sun.security.auth.module.JndiLoginModule required user.provider.url='ldap://x';",
            "do not load",
        ),
        ("com.sun.security.auth.module.Krb5LoginModule required;", "do not load"),
        (f"{SCRAM} required username=ada", "semicolon"),
        (f'{SCRAM} required username="ada;', "option 1"),
        (f'{SCRAM} required username="a" p@ss=geheim;', "option 2"),
        ("", "cannot be read"),
        (f"{SCRAM};", "cannot be read"),
    ],
)
def test_other_modules_and_broken_lines_are_refused_and_nothing_is_loaded(line: str, why: str) -> None:
    before = set(sys.modules)
    with pytest.raises(ConfigError, match=why) as raised:
        parse_jaas(line)
    assert "geheim" not in f"{raised.value} {raised.value.next_step}"
    assert set(sys.modules) == before


def test_librdkafkas_names_say_the_same() -> None:
    jaas = f'{SCRAM} required username="ada" password="geheim";'
    kafkas = Security.parse(LOGIN | {"sasl.jaas.config": jaas, "ssl.truststore.location": "ca.pem"})
    theirs = Security.parse(
        {"security.protocol": "sasl_ssl", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "ada"}
        | {"sasl.password": "geheim", "ssl.ca.location": "ca.pem"}
    )
    assert kafkas == theirs


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"security.protocol": "TLS"}, "it is one of"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanism is missing"),
        (LOGIN, "user name and a password"),
        (LOGIN | {"sasl.mechanism": "GSSAPI"}, "not supported"),
        (LOGIN | {"sasl.usernam": "ada"}, "unknown security option"),
        (LOGIN | {"sasl.login.callback.handler.class": "x.Y"}, "cannot be set"),
        (
            LOGIN | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f'{PLAIN} required tokenauth="true";'},
            "needs SCRAM",
        ),
        (
            LOGIN | {"sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{SCRAM} required;"},
            "login module of SCRAM",
        ),
        ({"sasl.password": "geheim"}, "no effect with security.protocol=PLAINTEXT"),
        ({"security.protocol": "SSL", "sasl.password": "geheim"}, "no effect"),
        ({"security.protocol": "SSL", "ssl.truststore.type": "BKS"}, "PEM or PKCS12"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldap"}, "https, or empty"),
        (LOGIN | {"sasl.mechanism": "OAUTHBEARER"}, "needs a token"),
        (LOGIN | {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token": "a b"}, "characters"),
    ],
)
def test_what_cannot_work_is_said_at_once_and_without_a_secret(given: dict[str, str], why: str) -> None:
    with pytest.raises(ConfigError, match=why) as raised:
        Security.parse(given)
    assert "geheim" not in f"{raised.value} {raised.value.next_step}"


def test_a_secret_is_in_no_repr_and_survives_a_pickle() -> None:
    security = Security.parse(
        LOGIN
        | {"sasl.username": "ada", "sasl.password": "geheim", "ssl.truststore.password": "geheim"}
        | {"ssl.key.password": "geheim", "ssl.keystore.key": "geheim", "ssl.keystore.certificate.chain": "x"}
    )
    assert "geheim" not in repr(security) and "ada" in repr(security)
    assert pickle.loads(pickle.dumps(security)) == security
