"""The console beside a real node: people log in as themselves, and see what the cluster shows to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.console.browser import Browser, Page, opened
from tests.console.test_markup import Read

from barnabas import Admin, Consumer, Producer
from barnabas.cli.main import main
from barnabas.client.admin.users import set_password
from barnabas.client.cluster import Cluster as ClusterClient
from barnabas.console import records
from barnabas.console.entrance import checked_options
from barnabas.console.routes import ROUTES
from barnabas.errors import ConfigError
from barnabas.settings.table_access import STANDARD_AUTHORIZER
from barnabas.testing.cluster import Cluster, free_ports

HOSTILE = b"<script>alert(1)</script>\"' onload=x \x1b[31m \xe2\x80\xae\xff"


class Secured:
    """A node where ada may read `orders`; whoever comes by the open listener is a super user (these tests)."""

    def __init__(self) -> None:
        port = free_ports()
        self.login = f"127.0.0.1:{port}"
        self.options = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256"}
        self.cluster = Cluster(
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,LOGIN://{self.login},CONTROLLER://127.0.0.1:0",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,LOGIN:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
                "sasl.enabled.mechanisms": "SCRAM-SHA-256",
                "authorizer.class.name": STANDARD_AUTHORIZER,
                "super.users": "User:ANONYMOUS;User:root",
                "connection.failed.authentication.delay.ms": "5",
                "offsets.topic.num.partitions": "1",
            }
        )

    def fill(self) -> None:
        admin = ClusterClient(self.cluster.bootstrap, client_id="test")
        for user in ("ada", "root"):
            set_password(admin, user, f"{user}-secret", "SCRAM-SHA-256", 4096)
        admin.close()
        ada = ["acls", "add", "--allow-principal", "User:ada", "--operation", "Read", "--topic", "orders"]
        assert main([*ada, "-b", self.cluster.bootstrap]) == 0
        with Admin(self.cluster.bootstrap) as made:
            made.create_topic("orders", partitions=2)
            made.create_topic("secret-plans", partitions=1)
        with Producer(self.cluster.bootstrap) as producer:
            for number in range(120):
                producer.send("orders", b"value %d" % number, key=b"k", partition=0)
            producer.send("orders", HOSTILE, key=HOSTILE, headers=[("<b>", HOSTILE)], partition=0)
            producer.send("secret-plans", b"at dawn", partition=0)
        with Consumer(self.cluster.bootstrap, "orders", group="billing", start="earliest") as consumer:
            for _ in zip(range(100), consumer, strict=False):
                pass


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    made = Secured()
    with made.cluster:
        made.fill()
        yield made


@pytest.fixture(scope="module")
def browser(secured: Secured) -> Iterator[Browser]:
    with opened(secured.login, secured.options) as (_, made):
        yield made


def as_user(browser: Browser, user: str) -> Browser:
    mine = Browser(browser.port)
    entered = mine.log_in(user, f"{user}-secret")
    assert (entered.status, entered.headers["location"]) == (303, "/cluster"), entered.text
    return mine


def text_of(answer: Page) -> str:
    assert answer.status == 200, answer.text
    return Read(answer.text).text


def test_a_super_user_sees_everything_and_ada_what_she_may(browser: Browser) -> None:
    root, ada = as_user(browser, "root"), as_user(browser, "ada")
    assert "secret-plans" in text_of(root.get("/topics"))
    seen = text_of(ada.get("/topics"))
    assert "orders" in seen and "secret-plans" not in seen
    assert "at dawn" in text_of(root.get("/messages?topic=secret-plans&partition=0"))
    refused = text_of(ada.get("/messages?topic=secret-plans&partition=0"))
    assert "TOPIC_AUTHORIZATION_FAILED" in refused and "barnabas acls why" in refused
    assert "at dawn" not in refused and "offsets" not in refused
    assert "CLUSTER_AUTHORIZATION_FAILED" in text_of(ada.get("/cluster"))
    assert "leader 1, epoch" in text_of(root.get("/cluster"))
    assert "serves" in text_of(root.get("/brokers"))


def test_who_is_not_let_in_by_the_cluster_is_not_let_in_here(browser: Browser) -> None:
    for user, password in (("ada", "wrong"), ("nobody", "ada-secret"), ("ada", "x" * 500)):
        mine = Browser(browser.port)
        refused = mine.log_in(user, password)
        assert refused.status == 403 and "Authentication failed" in Read(refused.text).text
        assert password not in refused.text and mine.get("/topics").status == 303
    for fields in ({"user": "ada"}, {"user": "", "password": ""}, {"user": "a", "password": "b", "c": "d"}):
        assert Browser(browser.port).post("/login", fields).status == 400


def test_whoever_logs_out_or_in_again_has_no_earlier_session(browser: Browser) -> None:
    ada = as_user(browser, "ada")
    kept = ada.cookie
    assert ada.post("/logout", {}).headers["location"] == "/login"
    ada.cookie = kept
    assert ada.get("/topics").status == 303
    ada = as_user(browser, "ada")
    kept = ada.cookie
    ada.log_in("root", "root-secret")
    assert "secret-plans" in text_of(ada.get("/topics"))
    ada.cookie = kept
    assert ada.get("/topics").status == 303


def test_a_user_who_is_removed_is_out_of_the_console_too(secured: Secured, browser: Browser) -> None:
    admin = ClusterClient(secured.cluster.bootstrap, client_id="test")
    set_password(admin, "tom", "tom-secret", "SCRAM-SHA-256", 4096)
    tom = as_user(browser, "tom")
    assert "none" in text_of(tom.get("/topics"))
    assert main(["users", "remove", "tom", "-b", secured.cluster.bootstrap]) == 0
    admin.close()
    assert "Authentication failed" in text_of(tom.get("/topics"))


def test_records_are_text_and_few(browser: Browser) -> None:
    ada = as_user(browser, "ada")
    answer = ada.get("/messages?topic=orders&partition=0")
    seen = Read(answer.text)
    assert (
        "offsets 0 to 121; from 71 on" in seen.text
        and "value 71" in seen.text
        and "value 70" not in seen.text
    )
    assert "<script>alert(1)</script>\"' onload=x \\x1b[31m \\u202e\\xff" in seen.text
    assert not {name for name, _ in seen.elements} & {"script", "img", "iframe"}
    assert not {name for _, given in seen.elements for name, _ in given if name.startswith("on")}
    first = text_of(ada.get("/messages?topic=orders&partition=0&offset=0"))
    assert "value 49" in first and "value 50" not in first and "later" in first
    assert "from 121 on" in text_of(ada.get("/messages?topic=orders&partition=0&offset=999999"))
    assert "none" in text_of(ada.get("/messages?topic=orders&partition=1"))
    assert "no partition 9" in text_of(ada.get("/messages?topic=orders&partition=9"))


def test_groups_show_their_lag(browser: Browser) -> None:
    root = as_user(browser, "root")
    assert "billing" in text_of(root.get("/groups"))
    assert "21 records behind" in text_of(root.get("/group?name=billing"))
    assert "GROUP_ID_NOT_FOUND" in text_of(root.get("/group?name=nothing"))
    assert "GROUP_AUTHORIZATION_FAILED" in text_of(as_user(browser, "ada").get("/group?name=billing"))


@pytest.mark.parametrize(
    "target",
    [
        "/topic",
        "/topic?name=",
        "/group",
        "/messages?partition=0",
        "/messages?topic=orders&partition=-1",
        "/messages?topic=orders&partition=x",
        "/messages?topic=orders&offset=99999999999999999999",
        "/messages?topic=orders&filter=value",
        "/cluster?x=1",
        f"/topic?name={'x' * 600}",
    ],
)
def test_a_page_takes_its_own_fields_and_no_others(browser: Browser, target: str) -> None:
    assert as_user(browser, "root").get(target).status == 400


def test_a_page_that_looks_makes_no_topic(secured: Secured, browser: Browser) -> None:
    root, name = as_user(browser, "root"), "not-there"
    for target in (f"/topic?name={name}", f"/messages?topic={name}&partition=0"):
        assert "UNKNOWN_TOPIC_OR_PARTITION" in text_of(root.get(target))
    assert name not in text_of(root.get("/topics"))


def test_a_batch_that_unpacks_to_too_much_is_passed_over(
    secured: Secured, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "bombs"
    with Admin(secured.cluster.bootstrap) as admin:
        admin.create_topic(topic, partitions=1)
    with Producer(secured.cluster.bootstrap, compression="gzip", linger=0.0) as producer:
        producer.send(topic, b"0" * 500_000).result(30)
        producer.send(topic, b"small").result(30)
    monkeypatch.setattr(records, "MOST_UNPACKED", 100_000)
    seen = text_of(as_user(browser, "root").get(f"/messages?topic={topic}&partition=0"))
    assert "offsets 0 to 0: compressed records unpack to more than 100000 bytes" in seen and "small" in seen


def test_a_cluster_without_logins_is_opened_by_a_button(secured: Secured) -> None:
    with opened(secured.cluster.bootstrap) as (_, browser):
        assert browser.get("/topics").status == 303, "also here somebody has to come from the entrance"
        assert "asks for no login" in text_of(browser.get("/login"))
        assert browser.log_in().status == 303
        assert "orders" in text_of(browser.get("/topics"))


def test_a_cluster_that_is_not_there_is_said() -> None:
    with opened("127.0.0.1:1") as (_, browser):
        assert browser.log_in().status == 502


@pytest.mark.parametrize(
    "own",
    [
        {"sasl.username": "ada"},
        {"sasl.jaas.config": "x required;"},
        {"sasl.password": "x"},
        {"sasl.oauthbearer.token": "x"},
        {"ssl.keystore.location": "ada.pem"},
        {"ssl.key.location": "ada.pem"},
    ],
)
def test_the_console_has_no_rights_of_its_own(
    own: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"security.protocol": "SASL_SSL", **own}
    with pytest.raises(ConfigError, match="no rights of its own"):
        checked_options(options)
    file = tmp_path / "console.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    assert main(["console", "127.0.0.1:1", "--command-config", str(file)]) == 2
    assert "whoever opens its pages logs in" in capsys.readouterr().err


def test_options_that_cannot_work_are_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["console", "nowhere"]) == 2
    assert "is no address of a broker" in capsys.readouterr().err
    assert checked_options({"security.protocol": "SASL_SSL"})["sasl.mechanism"] == "SCRAM-SHA-512"
    for wrong in (
        {"security.protocol": "TLS"},
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"},
    ):
        with pytest.raises(ConfigError):
            checked_options(wrong)


def test_everything_that_the_table_serves_is_in_the_docs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "console.md").read_text()
    assert [route.path for route in ROUTES if f"`{route.path}`" not in page] == []
