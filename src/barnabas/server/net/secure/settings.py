"""The rules of a listener's logins, and what this node itself logs in with, from Kafka's settings.

`listener.name.<listener>.<mechanism>.sasl.jaas.config` is a login module's line: it is read, never loaded.  Its
`username` and `password` are what this node logs in with at other nodes' listeners of that name; with PLAIN, its
`user_NAME="password"` are users of the listener; with OAUTHBEARER, its `ssl.` options say whom to trust where the
keys of the issuer are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.client.security.options import PLAINTEXT, Security
from barnabas.config import Config
from barnabas.errors import ConfigError
from barnabas.extras import to_install
from barnabas.security.jaas import JaasEntry, parse_jaas
from barnabas.security.login import LoginRules
from barnabas.server.net.tls.settings import tls_of

if TYPE_CHECKING:
    from barnabas.server.net.secure.bearers import BearerRules

__all__ = ["bearers_of", "controllers_security", "dialling", "protocol_id", "rules_of"]

_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}
_SERVED = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN", "OAUTHBEARER")
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
_USER = "user_"


def rules_of(config: Config, listener: str) -> LoginRules | None:
    """What a listener takes; None: its clients do not log in.  Raises ConfigError."""
    if not _has_sasl(config, listener):
        return None
    at, prefix = config.at(listener), f"listener.name.{listener.lower()}."
    words = at.list("sasl.enabled.mechanisms")
    for word in words:
        if word not in _SERVED:
            other = "use SCRAM-SHA-512, or PLAIN" if word == "GSSAPI" else "check how it is spelled"
            raise ConfigError(
                f"listener {listener}: mechanism {word!r} is not supported (there are {', '.join(_SERVED)})",
                next_step=f"{other}: sasl.enabled.mechanisms=SCRAM-SHA-512",
            )
    users: dict[str, str] = {}
    if "PLAIN" in words and (entry := _jaas(config, listener, "PLAIN")) is not None:
        users = {n.removeprefix(_USER): p for n, p in entry.options.items() if n.startswith(_USER)}
    ages = [_age(config, f"{prefix}{word.lower()}.connections.max.reauth.ms") for word in words]
    found = next((age for age in ages if age is not None), at.int("connections.max.reauth.ms"))
    return LoginRules(words, users, found)


def bearers_of(config: Config, listener: str) -> BearerRules | None:
    """What a listener asks of tokens; None: it takes none.  Raises ConfigError."""
    if not _has_sasl(config, listener):
        return None
    if "OAUTHBEARER" not in config.at(listener).list("sasl.enabled.mechanisms"):
        return None
    name = f"listener.name.{listener.lower()}.oauthbearer.sasl.server.callback.handler.class"
    if config.given.get(name, _VALIDATOR) != _VALIDATOR:
        raise ConfigError(
            f"{name} names a class, and we load none", next_step=f"remove it, or name {_VALIDATOR}"
        )
    try:
        from barnabas.server.net.secure.bearers import bearer_rules  # (joserfc takes a start 60 ms)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"listener {listener}: OAUTHBEARER needs the package {error.name}",
            next_step=to_install("security"),
        ) from None
    return bearer_rules(config, listener, _jaas(config, listener, "OAUTHBEARER"))


def dialling(config: Config, listener: str, setting: str) -> Security:
    """What this node shows at other nodes' listener of that name; `setting` names the mechanism.

    Raises ConfigError.
    """
    tls = tls_of(config.at(listener)) if (config.protocol_of(listener) or "").endswith("SSL") else None
    if not _has_sasl(config, listener):
        return PLAINTEXT if tls is None else Security(tls=tls)
    mechanism = config.str(setting)
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    if mechanism == "OAUTHBEARER":
        raise ConfigError(
            f"nodes do not log in at the listener {listener} of each other by OAUTHBEARER",
            next_step=f"set {setting}=PLAIN or SCRAM-SHA-512, or have them meet at a listener with mTLS",
        )
    entry = _jaas(config, listener, mechanism)
    if entry is None or "username" not in entry.options:
        raise ConfigError(
            f"this node has nothing to log in with at the listener {listener} of other nodes",
            next_step=f'set {name}=... required username="..." password="..."; (and {setting})',
        )
    shown = Security.parse(
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": entry.options["username"],
            "sasl.password": entry.options.get("password", ""),
        }
    )
    return Security(tls=tls, sasl=shown.sasl)


def controllers_security(config: Config) -> Security:
    """What this node shows at controllers.  Raises ConfigError."""
    names = config.list("controller.listener.names")
    listener = names[0].upper() if names else "CONTROLLER"
    if "controller" in config.roles and _has_sasl(config, listener):
        _check_users_of_controllers(config, listener)
    return dialling(config, listener, "sasl.mechanism.controller.protocol")


def _check_users_of_controllers(config: Config, listener: str) -> None:
    """Users of SCRAM are in the metadata, which controllers read when they have found each other."""
    setting = "sasl.mechanism.controller.protocol"
    taken, shown = config.at(listener).list("sasl.enabled.mechanisms"), config.str(setting)
    if not shown.startswith("SCRAM") and not all(word.startswith("SCRAM") for word in taken):
        return
    prefix = f"listener.name.{listener.lower()}"
    raise ConfigError(
        f"controllers cannot log in at each other's listener {listener} with SCRAM: its users are in the "
        "metadata, which nobody can read before the controllers have found each other",
        next_step=f"set {setting}=PLAIN, {prefix}.sasl.enabled.mechanisms=PLAIN and "
        f"{prefix}.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="node" password="..." user_node="..."; or make it a listener with certificates (SSL)',
    )


def protocol_id(config: Config, listener: str) -> int:
    """Kafka's number of a listener's protocol, as registrations carry it."""
    return _PROTOCOL_IDS[config.protocol_of(listener) or "PLAINTEXT"]


def _has_sasl(config: Config, listener: str) -> bool:
    return (config.protocol_of(listener) or "").startswith("SASL_")


def _jaas(config: Config, listener: str, mechanism: str) -> JaasEntry | None:
    name = f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"
    text = config.given.get(name)
    if text is None:
        return None
    entry = parse_jaas(text, name)
    family = "SCRAM" if mechanism.startswith("SCRAM") else mechanism
    if entry.family != family:
        raise ConfigError(
            f"{name} names the login module of {entry.family}", next_step=f"name that of {family}"
        )
    return entry


def _age(config: Config, name: str) -> int | None:
    text = config.given.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal():
        raise ConfigError(f"{name}={text} is not a number of milliseconds", next_step="0 means for ever")
    return int(text)
