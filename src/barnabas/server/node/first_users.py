"""The first users of a cluster: `storage format --add-scram`, as Apache Kafka's storage tool reads it.

SCRAM-SHA-512=[name=alice,password=alice-secret]
SCRAM-SHA-256=[name=alice,iterations=8192,salt="MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3A5",saltedpassword="..."]
"""

from __future__ import annotations

import base64
import binascii
import os
import re

from barnabas.controller.decisions.users.scram_users import user_record
from barnabas.errors import ConfigError
from barnabas.security.scram import (
    FEWEST_ITERATIONS,
    MECHANISMS,
    MOST_ITERATIONS,
    credential_of,
    salted_password,
)
from barnabas.wire.metadata import UserScramCredentialRecord

__all__ = ["scram_record"]

_FORM = "SCRAM-SHA-512=[name=alice,password=alice-secret]"
_OPTION = re.compile(r'\s*([a-z]+)=(?:"([^"]*)"|([^,"\]]*))\s*(?:,|$)')
_CODES = {name: code for code, name in MECHANISMS.items()}
_SALT_BYTES = 24


def scram_record(text: str) -> UserScramCredentialRecord:
    """The record of one user.  Raises ConfigError, which never quotes a secret."""
    mechanism, _, rest = text.partition("=")
    if mechanism not in _CODES:
        raise _refused(f"--add-scram: {mechanism[:40]!r} is no mechanism ({', '.join(_CODES)})")
    if not rest.startswith("[") or not rest.endswith("]"):
        raise _refused("--add-scram: the options do not stand in brackets")
    options, position = dict[str, str](), 0
    inside = rest[1:-1]
    while position < len(inside):
        found = _OPTION.match(inside, position)
        if found is None or found[1] not in ("name", "password", "iterations", "salt", "saltedpassword"):
            raise _refused(f"--add-scram: option {len(options) + 1} cannot be read")
        options[found[1]] = found[3] if found[2] is None else found[2]
        position = found.end()
    return _record(mechanism, options)


def _record(mechanism: str, options: dict[str, str]) -> UserScramCredentialRecord:
    name = options.get("name", "")
    if not name:
        raise _refused("--add-scram: the user has no name")
    if ("password" in options) == ("saltedpassword" in options):
        raise _refused("--add-scram: give either password or saltedpassword")
    times = options.get("iterations", str(FEWEST_ITERATIONS))
    if not times.isdecimal() or not FEWEST_ITERATIONS <= int(times) <= MOST_ITERATIONS:
        raise _refused(f"--add-scram: iterations is {FEWEST_ITERATIONS} to {MOST_ITERATIONS}")
    salt = _decoded(options["salt"]) if "salt" in options else os.urandom(_SALT_BYTES)
    if "password" in options:
        salted = salted_password(mechanism, options["password"].encode(), salt, int(times))
    elif "salt" in options:
        salted = _decoded(options["saltedpassword"])
    else:
        raise _refused("--add-scram: a saltedpassword needs its salt")
    return user_record(name, _CODES[mechanism], credential_of(mechanism, salted, salt, int(times)))


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise _refused("--add-scram: salt and saltedpassword are base64") from None


def _refused(why: str) -> ConfigError:
    return ConfigError(why, next_step=f"write for example '{_FORM}'")
