"""Who may do what: the settings of the authorizer, and what must fit together for anybody to get in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from barnabas.errors import ConfigError
from barnabas.settings.setting import Value, section

__all__ = ["ANONYMOUS", "STANDARD_AUTHORIZER", "check_access", "super_users"]

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANONYMOUS = "User:ANONYMOUS"
"""Who comes through a listener without login."""

# fmt: off
_s = section("Who may do what")
_s("authorizer.class.name", "string", "",
   f"`{STANDARD_AUTHORIZER}` turns the authorizer on: ACLs decide who may do what (docs/acls.md). Empty: "
   "everybody may do everything. No other class can be loaded.")
_s("super.users", "string", "",
   "Principals that may do everything, separated by semicolons, as `User:admin;User:CN=node1,O=Acme`. With an "
   "authorizer the nodes themselves must be among them.")
_s("allow.everyone.if.no.acl.found", "boolean", False,
   "Whether everybody may do everything to a resource that has no ACL at all.")
# fmt: on


def super_users(text: str) -> tuple[str, ...]:
    """The principals of `super.users`.  Raises ConfigError for one without a type."""
    found = tuple(dict.fromkeys(one.strip() for one in text.split(";") if one.strip()))
    for one in found:
        kind, colon, name = one.partition(":")
        if not (kind and colon and name):
            raise ConfigError(
                f"super.users: {one!r} is no principal",
                next_step=f"write User:{one}; several are separated by semicolons",
            )
    return found


def check_access(values: Mapping[str, Value], without_login: Iterable[str]) -> None:
    """Refuse an authorizer that this release does not have, and one that nobody can pass.

    `without_login` are listeners by which nodes reach each other without saying who they are.
    """
    supers = super_users(str(values["super.users"] or ""))
    authorizer = values["authorizer.class.name"]
    if not authorizer:
        return
    if authorizer != STANDARD_AUTHORIZER:
        raise ConfigError(
            f"authorizer.class.name={authorizer}: no classes are loaded here",
            next_step=f"write authorizer.class.name={STANDARD_AUTHORIZER}, or remove the line",
        )
    if not supers:
        raise ConfigError(
            "an authorizer is on and super.users is empty: nobody could do anything, the nodes neither",
            next_step="name in super.users whom the nodes log in as, and an administrator: "
            "super.users=User:node;User:admin",
        )
    for name in without_login if ANONYMOUS not in supers else ():
        raise ConfigError(
            f"the nodes reach each other by listener {name}, which has no login, so each is {ANONYMOUS} to the "
            "others, who is not in super.users: they could not work together",
            next_step=f"give {name} a login (listener.security.protocol.map), or add {ANONYMOUS} to super.users: "
            "then whoever reaches a listener without login may do everything",
        )
