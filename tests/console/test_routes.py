"""What the console serves is one table; what is not in it is not served, and most of it asks for a login."""

from __future__ import annotations

import pytest
from tests.console.browser import Browser, opened

from barnabas.console.door import COOKIE
from barnabas.console.routes import ROUTES


@pytest.fixture(scope="module")
def browser() -> object:
    with opened("127.0.0.1:1") as (_, made):
        yield made


FOR_ALL = {("GET", "/"), ("GET", "/style.css"), ("GET", "/login"), ("POST", "/login"), ("POST", "/logout")}


def test_what_is_open_to_all_is_the_entrance_and_nothing_else() -> None:
    assert {(route.method, route.path) for route in ROUTES if route.open is not None} == FOR_ALL
    for route in ROUTES:
        assert (route.open is None) != (route.page is None), "a route is for all, or for who is logged in"


@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.page is not None])
@pytest.mark.parametrize("cookie", ["", f"{COOKIE}=", f"{COOKIE}=made-up", "other=1"])
def test_without_a_login_each_page_leads_to_the_entrance(browser: Browser, path: str, cookie: str) -> None:
    answer = browser.get(f"{path}?name=x", {"Cookie": cookie or None})
    assert (answer.status, answer.headers["location"], answer.text) == (303, "/login", "")


@pytest.mark.parametrize("path", [route.path for route in ROUTES])
def test_a_path_is_that_of_a_route_byte_by_byte_or_it_is_none(browser: Browser, path: str) -> None:
    for almost in (
        f"/{path}",
        f"{path}/",
        f"{path};x",
        f"/x/..{path}",
        f"/.{path}",
        f"/%2f{path[1:]}x",
        f"{path}%00",
        f"http://127.0.0.1{path}",
        path.upper() if path != "/" else "//",
        f"{path}#x",
    ):
        assert browser.get(almost).status == 404, almost
    assert browser.post(path, {}).status in (400, 404, 303, 502)
