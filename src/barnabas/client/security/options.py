"""How a client shows who it is and whom it trusts, read from Kafka's option names (or librdkafka's).

    Security.parse({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.username": "ada", "sasl.password": "...", "ssl.ca.location": "ca.pem"})

What is given is checked at once, all but the files.  No error and no repr shows a value that may be a secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from barnabas.client.security.sasl import MECHANISMS
from barnabas.errors import ConfigError
from barnabas.security.jaas import JaasEntry, parse_jaas

__all__ = [
    "NAMES",
    "REFUSED",
    "SECRET",
    "Sasl",
    "Security",
    "SecurityOptions",
    "Tls",
    "is_security_option",
    "why_ended",
]

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
STORES = ("PEM", "PKCS12", "JKS")

NAMES: dict[str, str] = {
    "security.protocol": "PLAINTEXT (default), SSL, SASL_PLAINTEXT or SASL_SSL",
    "sasl.mechanism": f"{', '.join(MECHANISMS[:-1])} or {MECHANISMS[-1]}",
    "sasl.jaas.config": "Kafka's line for the SCRAM, PLAIN or OAUTHBEARER login module: read, never loaded",
    "sasl.username": "who logs in, where there is no sasl.jaas.config",
    "sasl.password": "its password",
    "sasl.oauthbearer.token": "a token that somebody else has fetched",
    "sasl.oauthbearer.token.endpoint.url": "where tokens are fetched with the client's id and secret: https",
    "sasl.oauthbearer.client.credentials.client.id": "the client's id there",
    "sasl.oauthbearer.client.credentials.client.secret": "the client's secret there",
    "sasl.oauthbearer.scope": "what the token shall be good for",
    "ssl.truststore.location": "file with the certificates of the brokers' authorities: PEM or PKCS12",
    "ssl.truststore.type": "PEM or PKCS12; without it the file is looked at",
    "ssl.truststore.password": "of a PKCS12 file",
    "ssl.truststore.certificates": "the certificates themselves, in PEM",
    "ssl.ca.location": "as ssl.truststore.location, in PEM",
    "ssl.keystore.location": "file with the client's own certificate and key: PEM or PKCS12",
    "ssl.keystore.type": "PEM or PKCS12; without it the file is looked at",
    "ssl.keystore.password": "of a PKCS12 file",
    "ssl.keystore.certificate.chain": "the client's certificate itself, in PEM",
    "ssl.keystore.key": "its key itself, in PEM",
    "ssl.certificate.location": "file with the client's certificate, in PEM",
    "ssl.key.location": "file with its key, in PEM",
    "ssl.key.password": "of an encrypted key",
    "ssl.endpoint.identification.algorithm": "https (default): a certificate has to name its host; empty: not",
}
"""Every option, with its meaning."""

SECRET = frozenset(
    {
        "sasl.jaas.config",
        "sasl.password",
        "sasl.oauthbearer.token",
        "sasl.oauthbearer.client.credentials.client.secret",
        "ssl.truststore.password",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.key.password",
    }
)
"""Those whose values nobody may see."""

_OTHER_NAMES = {
    "sasl.mechanisms": "sasl.mechanism",
    "sasl.oauthbearer.client.id": "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.secret": "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
REFUSED = {
    "sasl.client.callback.handler.class": "no class is loaded: give the credentials themselves",
    "sasl.login.callback.handler.class": "no class is loaded: give sasl.oauthbearer.token.endpoint.url or a token",
    "sasl.login.class": "no class is loaded",
    "sasl.kerberos.service.name": "GSSAPI is not supported: use SCRAM-SHA-512, or OAUTHBEARER",
    "ssl.engine.factory.class": "no class is loaded",
    "enable.ssl.certificate.verification": "they are always checked: name their authority in ssl.ca.location",
}
_JAVAS = (
    "ssl.provider",
    "ssl.protocol",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    "ssl.secure.random.implementation",
)
_NO_EFFECT = frozenset((*_JAVAS, "ssl.keymanager.algorithm", "ssl.trustmanager.algorithm"))


@dataclass(frozen=True, slots=True)
class Tls:
    """Whom to trust and what to show: files by name, or PEM text.  Empty: the system's authorities."""

    ca_file: str = ""
    ca_type: str = ""
    ca_password: str = field(default="", repr=False)
    ca_pem: str = field(default="", repr=False)
    cert_file: str = ""
    cert_type: str = ""
    cert_password: str = field(default="", repr=False)
    cert_pem: str = field(default="", repr=False)
    key_file: str = ""
    key_pem: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    check_host: bool = True


@dataclass(frozen=True, slots=True)
class Sasl:
    """One mechanism and what it needs."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    token_url: str = ""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    extensions: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    by_token: bool = False
    """Whether the name is the id of a delegation token, and the password its HMAC."""


@dataclass(frozen=True, slots=True)
class Security:
    """The security of a client.  Neither TLS nor SASL: PLAINTEXT."""

    tls: Tls | None = None
    sasl: Sasl | None = None

    @classmethod
    def parse(cls, given: SecurityOptions) -> Security:
        """`Security.parse({"security.protocol": "SSL"})`; other options than those of NAMES are an error.

        Raises ConfigError.
        """
        if given is None:
            return PLAINTEXT
        if isinstance(given, Security):
            return given
        if not isinstance(given, Mapping):
            raise ConfigError(
                f"security is a mapping of options, not {type(given).__name__}",
                next_step='give {"security.protocol": "SASL_SSL", ...}; a file of them has to be read first',
            )
        words = _words(given)
        protocol = words.get("security.protocol", "PLAINTEXT").upper()
        if protocol not in PROTOCOLS:
            raise ConfigError(f"security.protocol={protocol[:50]}: it is one of {', '.join(PROTOCOLS)}")
        tls = _tls(words) if protocol.endswith("SSL") else None
        sasl = _sasl(words) if protocol.startswith("SASL") else None
        idle = [
            name
            for name in sorted(words)
            if (name.startswith("sasl.") and sasl is None) or (name.startswith("ssl.") and tls is None)
        ]
        if idle:
            raise ConfigError(
                f"{idle[0]} has no effect with security.protocol={protocol}",
                next_step="set security.protocol (SSL, SASL_PLAINTEXT, SASL_SSL), or leave the option out",
            )
        return cls(tls, sasl)


SecurityOptions: TypeAlias = Mapping[str, str] | Security | None
PLAINTEXT = Security()


def is_security_option(name: str) -> bool:
    """Whether this name of Kafka's belongs to us (`ssl.ca.location`, not `client.id`)."""
    return name == "security.protocol" or name.startswith(("sasl.", "ssl.")) or name in REFUSED


def why_ended(security: Security) -> str:
    """What to look at when a broker ended a connection without a word."""
    if security.tls is not None and not security.tls.cert_file and not security.tls.cert_pem:
        return "see the node's log for the reason; if it asks for a certificate, set ssl.keystore.location"
    return "see the node's log for the reason; listeners with TLS or SASL end plain connections"


def _words(given: Mapping[str, str]) -> dict[str, str]:
    """The options under their first names, stripped where blanks have no meaning."""
    found: dict[str, str] = {}
    for word, value in given.items():
        name = _OTHER_NAMES.get(word, word)
        if why := REFUSED.get(name):
            raise ConfigError(f"option {word} cannot be set", next_step=why)
        if name in _NO_EFFECT:
            continue
        if name not in NAMES:
            near = difflib.get_close_matches(name, NAMES, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(NAMES)}"
            raise ConfigError(f"unknown security option {word[:100]}", next_step=hint)
        found[name] = str(value) if name in SECRET else str(value).strip()
    return found


def _tls(words: Mapping[str, str]) -> Tls:
    algorithm = words.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("https", "", "none"):
        raise ConfigError(f"ssl.endpoint.identification.algorithm={algorithm[:50]}: it is https, or empty")
    given = words.get
    tls = Tls(
        ca_file=given("ssl.truststore.location", "") or given("ssl.ca.location", ""),
        ca_type=_store(words, "ssl.truststore"),
        ca_password=given("ssl.truststore.password", ""),
        ca_pem=given("ssl.truststore.certificates", ""),
        cert_file=given("ssl.keystore.location", "") or given("ssl.certificate.location", ""),
        cert_type=_store(words, "ssl.keystore"),
        cert_password=given("ssl.keystore.password", ""),
        cert_pem=given("ssl.keystore.certificate.chain", ""),
        key_file=given("ssl.key.location", ""),
        key_pem=given("ssl.keystore.key", ""),
        key_password=given("ssl.key.password", ""),
        check_host=algorithm == "https",
    )
    if bool(tls.cert_pem) != bool(tls.key_pem):
        raise ConfigError("ssl.keystore.certificate.chain and ssl.keystore.key go together")
    if tls.key_file and not tls.cert_file:
        raise ConfigError("ssl.key.location needs ssl.certificate.location")
    return tls


def _store(words: Mapping[str, str], prefix: str) -> str:
    kind = words.get(f"{prefix}.type", "").upper()
    if kind and kind not in STORES:
        raise ConfigError(f"{prefix}.type={kind[:50]}: it is PEM or PKCS12")
    return kind


def _sasl(words: Mapping[str, str]) -> Sasl:
    mechanism = words.get("sasl.mechanism", "").upper()
    if mechanism not in MECHANISMS:
        why = "is missing" if not mechanism else f"={mechanism[:50]} is not supported"
        raise ConfigError(
            f"sasl.mechanism {why}" if not mechanism else f"sasl.mechanism{why}",
            next_step=f"use one of {', '.join(MECHANISMS)}",
        )
    jaas = parse_jaas(words["sasl.jaas.config"]) if words.get("sasl.jaas.config", "").strip() else None
    if jaas is not None and not mechanism.startswith(jaas.family):
        raise ConfigError(
            f"sasl.jaas.config has the login module of {jaas.family}, sasl.mechanism is {mechanism}",
            next_step="make both the same",
        )
    if mechanism == "OAUTHBEARER":
        return _bearer(words, jaas)
    options = jaas.options if jaas is not None else {}
    by_token = options.get("tokenauth", "false").lower() == "true"
    if by_token and not mechanism.startswith("SCRAM"):
        raise ConfigError(
            "tokenauth=true (a delegation token) needs SCRAM", next_step="set sasl.mechanism=SCRAM-SHA-512"
        )
    username = options.get("username", words.get("sasl.username", ""))
    password = options.get("password", words.get("sasl.password", ""))
    if not username or not password:
        raise ConfigError(
            f"{mechanism} needs a user name and a password",
            next_step="give sasl.username and sasl.password, or both in sasl.jaas.config",
        )
    if "\0" in username + password:
        raise ConfigError("a user name or password cannot have a NUL in it")
    return Sasl(mechanism, username=username, password=password, by_token=by_token)


def _bearer(words: Mapping[str, str], jaas: JaasEntry | None) -> Sasl:
    options = jaas.options if jaas is not None else {}
    prefix = "sasl.oauthbearer"
    credentials = f"{prefix}.client.credentials"
    extensions = {
        name.removeprefix("extension_"): value
        for name, value in options.items()
        if name.startswith("extension_")
    }
    bad = [name for name, value in extensions.items() if not name.isalpha() or not value.isprintable()]
    if bad:
        raise ConfigError(f"sasl.jaas.config: extension_{bad[0][:50]} is no extension that can be sent")
    found = Sasl(
        "OAUTHBEARER",
        token=words.get(f"{prefix}.token", "").strip(),
        token_url=words.get(f"{prefix}.token.endpoint.url", ""),
        client_id=words.get(f"{credentials}.client.id", "") or options.get("clientId", ""),
        client_secret=words.get(f"{credentials}.client.secret", "") or options.get("clientSecret", ""),
        scope=words.get(f"{prefix}.scope", "") or options.get("scope", ""),
        extensions=tuple(sorted(extensions.items())),
    )
    if bool(found.token) == bool(found.token_url):
        raise ConfigError(
            "OAUTHBEARER needs a token, or where to fetch one",
            next_step=f"give {prefix}.token, or {prefix}.token.endpoint.url with id and secret; not both",
        )
    if found.token and not (found.token.isascii() and found.token.isprintable() and " " not in found.token):
        raise ConfigError(f"{prefix}.token has characters that no token has")
    if found.token_url and not (found.client_id and found.client_secret):
        raise ConfigError(
            f"{prefix}.token.endpoint.url needs the client's id and secret",
            next_step=f"give {credentials}.client.id and {credentials}.client.secret",
        )
    return found
