"""What the console serves: one table.  A path that is not in it is not served, and a route without `is_open` asks
for a login first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from barnabas.console import pages
from barnabas.console.door import Answer, Ask
from barnabas.console.entrance import Entrance
from barnabas.console.frame import STYLE, page
from barnabas.console.markup import tag
from barnabas.console.sessions import Session, Sessions

__all__ = ["ROUTES", "Route", "Routes"]

Page = Callable[[Session, Mapping[str, str]], Awaitable[Answer]]
Open = Callable[["Entrance", Ask], Awaitable[Answer]]


class Route(NamedTuple):
    """`page` is for who is logged in; `open` for everybody."""

    method: str
    path: str
    page: Page | None = None
    open: Open | None = None


async def _style(entrance: Entrance, ask: Ask) -> Answer:
    return Answer(200, STYLE, "text/css")


async def _first(entrance: Entrance, ask: Ask) -> Answer:
    return Answer(303, to="/cluster")


ROUTES = (
    Route("GET", "/", open=_first),
    Route("GET", "/style.css", open=_style),
    Route("GET", "/login", open=Entrance.show),
    Route("POST", "/login", open=Entrance.enter),
    Route("POST", "/logout", open=Entrance.leave),
    Route("GET", "/cluster", page=pages.cluster),
    Route("GET", "/brokers", page=pages.brokers),
    Route("GET", "/topics", page=pages.topics),
    Route("GET", "/topic", page=pages.topic),
    Route("GET", "/messages", page=pages.messages),
    Route("GET", "/groups", page=pages.groups),
    Route("GET", "/group", page=pages.group),
)
"""All there is."""


class Routes:
    """`serve` answers what the door has let in.  Paths are compared as they are: nothing is decoded or cleaned."""

    def __init__(self, entrance: Entrance, sessions: Sessions) -> None:
        self._entrance, self._sessions = entrance, sessions
        self._table = {(route.method, route.path): route for route in ROUTES}

    def __repr__(self) -> str:
        return f"<Routes {len(self._table)}>"

    async def serve(self, ask: Ask) -> Answer:
        """The page, the login, or that there is no such thing.  Raises RefusedRequest."""
        route = self._table.get((ask.method, ask.path))
        if route is None:
            lost = tag("p", "There is no such page. ", tag("a", "Begin here.", href="/cluster"))
            return Answer(404, page("Not found", lost))
        if route.open is not None:
            return await route.open(self._entrance, ask)
        session = self._sessions.of(ask.session) if ask.session else None
        if session is None or route.page is None:
            return Answer(303, to="/login", session="" if ask.session else None)
        return await route.page(session, ask.fields)
