"""Logging in and out: with a name and a password of the cluster, or with nothing where it asks for nothing."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.client.connection import ConnectionFailed
from barnabas.client.security.options import SECRET, Security
from barnabas.console.door import Answer, Ask, RefusedRequest
from barnabas.console.frame import page
from barnabas.console.markup import Markup, tag
from barnabas.console.sessions import Sessions
from barnabas.errors import BarnabasError, ConfigError

__all__ = ["Entrance", "checked_options"]

_MAY_BE_GIVEN = frozenset(("ssl.truststore.password",))
_OWN = ("ssl.keystore.", "ssl.certificate.", "ssl.key.", "sasl.username", "sasl.oauthbearer.client")
_BY_TOKEN = "OAUTHBEARER"


def checked_options(options: Mapping[str, str]) -> dict[str, str]:
    """How to reach the cluster, without anybody's credentials.  Raises ConfigError."""
    for name in options:
        if (name in SECRET and name not in _MAY_BE_GIVEN) or name.startswith(_OWN):
            raise ConfigError(
                f"{name}: the console has no rights of its own; whoever opens its pages logs in",
                next_step=f"leave {name} out of the file, which says how the cluster is reached and whom to trust",
            )
    found = dict(options)
    if found.get("security.protocol", "").upper().startswith("SASL"):
        found.setdefault("sasl.mechanism", "SCRAM-SHA-512")
        Security.parse(found | _credentials(found, "x", "x"))
    else:
        Security.parse(found)
    return found


def _credentials(options: Mapping[str, str], user: str, password: str) -> dict[str, str]:
    if options["sasl.mechanism"].upper() == _BY_TOKEN:
        return {"sasl.oauthbearer.token": password}
    return {"sasl.username": user, "sasl.password": password}


class Entrance:
    """`options` say how the cluster is reached."""

    def __init__(self, sessions: Sessions, options: Mapping[str, str]) -> None:
        self._sessions = sessions
        self._options = checked_options(options)
        self._asks = self._options.get("security.protocol", "").upper().startswith("SASL")
        self._by_token = self._asks and self._options["sasl.mechanism"].upper() == _BY_TOKEN

    def __repr__(self) -> str:
        return f"<Entrance {self._options.get('security.protocol', 'PLAINTEXT')}>"

    async def show(self, ask: Ask) -> Answer:
        """The form."""
        return Answer(200, self._form())

    async def enter(self, ask: Ask) -> Answer:
        """Log in.  An earlier session of this browser ends."""
        expected = {"user", "password"} if self._asks and not self._by_token else set()
        expected |= {"password"} if self._by_token else set()
        if set(ask.fields) != expected:
            raise RefusedRequest(400, "these are not the fields of the login")
        user, password = ask.fields.get("user", ""), ask.fields.get("password", "")
        shown = _credentials(self._options, user, password) if self._asks else {}
        if ask.session:
            self._sessions.end(ask.session)
        try:
            security = Security.parse(self._options | shown)
            token = await self._sessions.begin(security, user or ("token" if self._by_token else ""))
        except ConfigError:
            return Answer(400, self._form("give a name and a password"), session="")
        except BarnabasError as error:
            status = 502 if type(error) is ConnectionFailed else 403
            return Answer(status, self._form(error.message), session="")
        return Answer(303, to="/cluster", session=token)

    async def leave(self, ask: Ask) -> Answer:
        """Log out."""
        if ask.session:
            self._sessions.end(ask.session)
        return Answer(303, to="/login", session="")

    def _form(self, trouble: str = "") -> Markup:
        """(Nothing that was typed comes back.)"""
        said = tag("p", trouble, class_="bad", role="alert") if trouble else None
        fields: list[Markup] = []
        if self._asks and not self._by_token:
            fields.append(_field("user", "text", "user name", "username"))
        if self._asks:
            word = "token" if self._by_token else "password"
            fields.append(_field("password", "password", word, "current-password"))
        button = tag("button", "log in" if self._asks else "open")
        why = "You see what the cluster shows to you." if self._asks else "This cluster asks for no login."
        form = tag("form", said, fields, button, method="post", action="/login", class_="login")
        return page("Log in" if self._asks else "Welcome", tag("p", why, class_="quiet"), form)


def _field(name: str, kind: str, label: str, completed: str) -> Markup:
    field = tag("input", name=name, type=kind, autocomplete=completed, required="", maxlength=2000)
    return tag("label", label, field)
