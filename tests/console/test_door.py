"""What a request to the console has to be, before any page sees it; and what every answer says."""

from __future__ import annotations

import socket
import time

import pytest
from tests.console.browser import Browser, opened
from tests.patience import PATIENCE_S

from barnabas.console import door
from barnabas.console.routes import ROUTES

NOWHERE = "127.0.0.1:1"
"""A cluster that nobody asks: these requests do not get that far."""


@pytest.fixture(scope="module")
def browser() -> object:
    with opened(NOWHERE) as (_, made):
        yield made


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example.org",
        "127.0.0.1.evil.example.org:8088",
        "10.0.0.1:8088",
        "localhost.:8088",
        "\xa0localhost",
    ],
)
def test_who_asks_for_another_machine_is_sent_away(browser: Browser, host: str | None) -> None:
    assert browser.get("/login", {"Host": host}).status in (400, 421)
    for own in ("localhost", "LOCALHOST:9", "127.0.0.1", "[::1]:8088"):
        assert browser.get("/login", {"Host": own}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://evil.example.org"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://{host}"},
        {"Origin": "http://{host}.evil.example.org"},
        {"Origin": "http://localhost:{port}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.method == "POST"])
def test_a_form_of_another_page_is_refused(
    browser: Browser, headers: dict[str, str | None], path: str
) -> None:
    given = {
        name: value and value.format(host=browser.host, port=browser.port) for name, value in headers.items()
    }
    refused = browser.post(path, {}, given)
    assert refused.status == 403 and "does not come from a page of the console" in refused.text
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT"])
def test_there_is_nothing_but_reading_and_forms(browser: Browser, method: str) -> None:
    assert browser.ask(method, "/login", b"", {}).status in (400, 404, 405)


@pytest.mark.parametrize("kind", ["text/plain", "multipart/form-data; boundary=x", "application/json", ""])
def test_a_form_is_of_one_kind(browser: Browser, kind: str) -> None:
    assert browser.post("/login", b"user=a", {"Content-Type": kind}).status == 415


def test_what_no_route_should_see_is_refused(browser: Browser) -> None:
    assert browser.post("/login", b"user=a&user=b").status == 400
    assert browser.post("/login", b"user").status == 400
    assert browser.post("/login", b"user=%ff").status == 400
    assert browser.post("/login", "user=\xe4".encode()).status == 400
    assert browser.post("/login", b"&".join(b"f%d=1" % n for n in range(11))).status == 400
    assert browser.post("/login?user=a", {}).status == 400
    assert browser.post("/login", b"x" * (door.LARGEST_BODY_BYTES + 1)).status == 413
    assert browser.ask("GET", "/login", b"user=a", {}).status == 400
    assert browser.get("/login", {"X-Long": "x" * 40_000}).status == 431


def test_every_answer_forbids_what_no_page_needs(browser: Browser) -> None:
    answers = {
        200: browser.get("/login"),
        303: browser.get("/cluster"),
        403: browser.post("/logout", {}, {"Origin": None}),
        404: browser.get("/nothing"),
        421: browser.get("/login", {"Host": "evil.example.org"}),
    }
    assert {answer.status for answer in answers.values()} == set(answers)
    for answer in [*answers.values(), browser.get("/style.css")]:
        policy = answer.headers["content-security-policy"].split("; ")
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "base-uri 'none'" in policy and "form-action 'self'" in policy
        assert "unsafe" not in str(policy) and "script-src" not in str(policy)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["referrer-policy"] == "same-origin", "with none, a form has no origin"
        assert "<script" not in answer.text and " style=" not in answer.text and " on" not in answer.text[:15]


def test_the_cookie_is_for_this_console_and_for_no_script(browser: Browser) -> None:
    answer = browser.get("/cluster", {"Cookie": f"{door.COOKIE}=made-up"})
    said = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=0"} < set(said)
    twice = browser.get("/cluster", {"Cookie": f"{door.COOKIE}=a; {door.COOKIE}=b"})
    assert twice.status == 303 and twice.headers["location"] == "/login"


def test_who_sends_slowly_or_comes_with_too_many_is_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "HEAD_S", 0.2)
    monkeypatch.setattr(door, "MOST_AT_ONCE", 3)
    with opened(NOWHERE) as (_, browser):
        lines = [socket.create_connection(("127.0.0.1", browser.port), timeout=PATIENCE_S) for _ in range(3)]
        for line in lines:
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127")
        with pytest.raises(OSError):
            browser.get("/login")
        assert [line.recv(100) for line in lines] == [b""] * 3, "their time is over"
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                assert browser.get("/login").status == 200
                break
            except OSError:
                continue
        for line in lines:
            line.close()


@pytest.mark.parametrize("sent", [b"\x16\x03\x01\x02\0\x01", b"\0\0\0\x14\0\x12\r\n\r\n", b"GET\r\n\r\n"])
def test_bytes_that_are_no_http_end_their_connection_only(browser: Browser, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", browser.port), timeout=PATIENCE_S) as line:
        line.sendall(sent)
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass
    assert browser.get("/login").status == 200
