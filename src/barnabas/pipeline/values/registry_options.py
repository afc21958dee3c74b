"""How a schema registry is found and asked, under the names that Confluent's serializers have for it."""

from __future__ import annotations

import base64
import ipaddress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from barnabas.client.security.options import NAMES as SECURITY_NAMES
from barnabas.client.security.options import Security, Tls
from barnabas.errors import ConfigError

if TYPE_CHECKING:
    from barnabas.pipeline.option_words import OptionWords

__all__ = [
    "RECORD_NAME",
    "REGISTRY_NAMES",
    "REGISTRY_SINK_NAMES",
    "TOPIC_NAME",
    "TOPIC_RECORD_NAME",
    "RegistryOptions",
]

TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME = (
    "TopicNameStrategy",
    "RecordNameStrategy",
    "TopicRecordNameStrategy",
)
_STRATEGIES = (TOPIC_NAME, RECORD_NAME, TOPIC_RECORD_NAME)
_URL = "schema.registry.url"
_USER = "schema.registry.basic.auth.user.info"
_TOKEN = "schema.registry.bearer.auth.token"
_SOURCE = "basic.auth.credentials.source"
_TIMEOUT = "schema.registry.request.timeout.ms"
_STRATEGY = "value.subject.name.strategy"
_SUBJECT = "valueSubject"
_TLS = {
    f"schema.registry.{name}": meaning.replace("brokers'", "registry's")
    for name, meaning in SECURITY_NAMES.items()
    if name.startswith("ssl.")
}
_SHORT = {"basic.auth.user.info": _USER, "bearer.auth.token": _TOKEN}
"""Names that Confluent's serializers have, too."""

REGISTRY_NAMES: dict[str, str] = {
    _URL: "with confluent-avro: where the schema registry is; several, separated by commas, are tried in turn",
    _USER: "user:password at the registry",
    "basic.auth.user.info": f"as {_USER}",
    _SOURCE: "USER_INFO, or URL where the registry's address has user:password@; found out without it",
    _TOKEN: "a bearer token for the registry",
    "bearer.auth.token": f"as {_TOKEN}",
    _TIMEOUT: "how long an answer of the registry may take, 30000 by default",
    _SUBJECT: "the subject of the schemas, where no strategy finds it",
    _STRATEGY: f"{TOPIC_NAME} (default: TOPIC-value), {RECORD_NAME} or {TOPIC_RECORD_NAME}",
    **_TLS,
}
REGISTRY_SINK_NAMES: dict[str, str] = {
    "auto.register.schemas": "true (default): the sink registers its schema; false: it has to be there",
    "use.latest.version": "true: the sink writes with the newest schema of the subject",
}


@dataclass(frozen=True, slots=True)
class RegistryOptions:
    """The options about a registry, checked.  `login` is what the header Authorization says."""

    urls: tuple[str, ...]
    login: str = field(default="", repr=False)
    tls: Tls = field(default_factory=Tls)
    timeout: float = 30.0
    subject: str = ""
    strategy: str = TOPIC_NAME
    register: bool = True
    latest: bool = False

    @classmethod
    def parse(cls, words: OptionWords) -> RegistryOptions:
        """Raises ConfigError, which shows no secret."""
        if not words.text(_URL, ""):
            raise ConfigError(
                f"valueFormat=confluent-avro needs {_URL}",
                next_step=f'say .option("{_URL}", "http://localhost:8081")',
            )
        found = [_address(text.strip()) for text in words.text(_URL, "").split(",") if text.strip()]
        urls = tuple(url for url, _ in found)
        pairs = {pair for _, pair in found if pair}
        login = _login(words, pairs)
        if login and (open_ := [url for url in urls if not _is_private(url)]):
            raise ConfigError(
                f"{open_[0]} is no https: the login would be readable on the way", next_step="use https"
            )
        tls = {
            name.removeprefix("schema.registry."): words.values[name] for name in _TLS if name in words.values
        }
        if tls and not any(url.startswith("https:") for url in urls):
            raise ConfigError(
                f"schema.registry.{next(iter(tls))} has no effect: the registry's address is http"
            )
        strategy = words.text(_STRATEGY, TOPIC_NAME).rpartition(".")[2]
        if strategy not in _STRATEGIES:
            raise ConfigError(
                f"{_STRATEGY}={strategy[:80]}: it is {', '.join(_STRATEGIES[:-1])} or {_STRATEGIES[-1]}",
                next_step=f"no class is loaded: name the subject with {_SUBJECT}",
            )
        register = words.boolean("auto.register.schemas", "use.latest.version" not in words.values)
        latest = words.boolean("use.latest.version", False)
        if register and latest:
            raise ConfigError(
                "auto.register.schemas and use.latest.version are both true", next_step="set one to false"
            )
        return cls(
            urls,
            login,
            Security.parse({"security.protocol": "SSL", **tls}).tls or Tls(),
            (words.whole(_TIMEOUT) or 30_000) / 1000,
            words.text(_SUBJECT, ""),
            strategy,
            register,
            latest,
        )

    def subject_of(self, topic: str | None, record: str | None) -> str:
        """The subject of the values of a topic; ConfigError where no name of that is known."""
        if self.subject:
            return self.subject
        parts = {TOPIC_NAME: (topic, "value"), RECORD_NAME: (record,), TOPIC_RECORD_NAME: (topic, record)}
        names = parts[self.strategy]
        if None in names:
            said = "one topic" if topic is None and self.strategy != RECORD_NAME else "an Avro schema"
            raise ConfigError(
                f"{self.strategy} finds no subject: it needs {said}",
                next_step=f"name the subject with {_SUBJECT}",
            )
        return "-".join(str(name) for name in names)


def _address(text: str) -> tuple[str, str]:
    """An address without user and password, and these."""
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigError(  # (not the text: it may have a password)
            f"{_URL} has an address that is none", next_step="write http://HOST:8081, or https"
        )
    shown = f"[{host}]" if ":" in host else host
    where = f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path.rstrip('/')}"
    pair = "" if parts.username is None else f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return where, pair


def _login(words: OptionWords, in_url: set[str]) -> str:
    """What the header Authorization says; empty: nothing.  Raises ConfigError."""
    given = {long: words.values.get(short, "") for short, long in _SHORT.items()}
    pair = words.values.get(_USER, "") or given[_USER]
    token = (words.values.get(_TOKEN, "") or given[_TOKEN]).strip()
    source = words.text(_SOURCE, "").upper()
    if source not in ("", "USER_INFO", "URL"):
        raise ConfigError(
            f"{_SOURCE}={source[:50]}: it is USER_INFO or URL", next_step=f"give {_USER} with USER_INFO"
        )
    if (source == "USER_INFO" and not pair) or (source == "URL" and not in_url):
        raise ConfigError(f"{_SOURCE}={source}, and no user is given there")
    if source != "USER_INFO" and in_url and not pair:
        if len(in_url) > 1:
            raise ConfigError(f"{_URL} has several users", next_step=f"give {_USER} instead")
        [pair] = in_url
    if pair and token:
        raise ConfigError(f"{_USER} and {_TOKEN} are both given", next_step="leave one out")
    if pair:
        if ":" not in pair:
            raise ConfigError(f"{_USER} is not user:password")
        return f"Basic {base64.b64encode(pair.encode()).decode()}"
    if token and not (token.isascii() and token.isprintable() and " " not in token):
        raise ConfigError(f"{_TOKEN} has characters that no token has")
    return f"Bearer {token}" if token else ""


def _is_private(url: str) -> bool:
    """Whether nobody on the way reads what is sent there."""
    parts = urlsplit(url)
    if parts.scheme == "https" or parts.hostname == "localhost":
        return True
    try:
        return ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False
