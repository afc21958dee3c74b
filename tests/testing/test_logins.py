"""Users of the fixtures' nodes: they are let in with what `login` returns, and nobody else is."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.patience import PATIENCE_S

from barnabas import Producer
from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError
from barnabas.testing import Cluster
from barnabas.testing.logins import node_settings


@pytest.fixture(scope="module")
def kafka_users() -> dict[str, str]:
    return {"ada": "adas-secret", "bob": "bob's secret"}


@pytest.mark.parametrize("name", ["ada", "bob"])
def test_a_user_of_the_module_is_let_in(kafka_module: Cluster, topic: str, name: str) -> None:
    with Producer(kafka_module.bootstrap, security=kafka_module.login(name)) as producer:
        assert producer.send(topic, b"x").result(PATIENCE_S).offset == 0


def test_nobody_else_is_let_in(kafka_module: Cluster) -> None:
    wrong = kafka_module.login() | {"sasl.password": "wrong"}
    with pytest.raises(BarnabasError, match=r"ada|password|SASL"):
        Admin(kafka_module.bootstrap, security=wrong, timeout=10).topics()
    kafka_module.clean()  # (the fixture itself is a user)


def test_users_log_in_at_several_nodes(kafka_cluster: Callable[..., Cluster]) -> None:
    kafka = kafka_cluster(2, users={"ada": "adas-secret"})
    with Producer(kafka.bootstrap, security=kafka.login("ada")) as producer:
        assert producer.send("t", b"x").result(PATIENCE_S).offset == 0


def test_what_is_wrong_with_users_is_said() -> None:
    cluster = Cluster()
    with pytest.raises(ValueError, match="no users"):
        cluster.login()
    cluster.close()
    for name, password in {"a b": "x", 'a"': "x", "a": 'x"y', "": "x", "b": ""}.items():
        with pytest.raises(ValueError, match="user"):
            node_settings({name: password})
    with pytest.raises(ValueError, match="listeners"):
        Cluster({"listeners": "PLAINTEXT://127.0.0.1:0"}, users={"a": "b"})
