"""Nodes of both kinds go from the levels of Apache Kafka 4.3 to those of 4.4, and as far back as Kafka does.

Needs Apache Kafka 4.4 or newer.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.compat.conftest import NodeProcess, run_kafka_class
from tests.compat.test_quorum_mixed import CLUSTER_TOOL, FEATURES, QUORUM, leading, observed, script, voters
from tests.server.quorum_processes import CLUSTER, eventually
from tools.peer import KAFKA_LIBS

from barnabas.client.admin.admin import Admin

pytestmark = [
    pytest.mark.compat,
    pytest.mark.skipif(any(KAFKA_LIBS.glob("kafka-clients-4.3.*")), reason="Kafka 4.3 has no such levels"),
]
ACLS = "org.apache.kafka.tools.AclCommand"
THEIRS = 19493


def tool(name: str, *words: str, code: int = 0) -> str:
    """Run one of Kafka's tools, which has to end with this code."""
    ended, said = run_kafka_class(name, *words)
    assert ended == code, said[-3000:]
    return said


def test_both_kinds_go_up_to_4_4_together_and_down_where_nothing_would_be_lost(
    apache: Path, tmp_path: Path
) -> None:
    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    node = NodeProcess(tmp_path / "ours", **{name.replace(".", "_"): value for name, value in rights.items()})
    node.barnabas("storage", "format", "--standalone", "-r", "4.3", "-t", CLUSTER, "-c", str(node.properties))
    extra = "\n".join(f"{name}={value}" for name, value in rights.items())
    own = f"127.0.0.1:{node.controller_port}"
    with ExitStack() as ends:
        ends.callback(node.stop)
        node.start()
        ends.enter_context(
            script(apache, "start4.sh", tmp_path / "k", "broker,controller", BOOTC=own, EXTRA=extra)
        )
        at = ("--bootstrap-server", node.bootstrap)
        ports = [node.controller_port, THEIRS]

        def features(*words: str, code: int = 0) -> str:
            return tool(FEATURES, *at, *words, code=code)

        def forbid(code: int = 0) -> str:
            words = "--add --deny-principal User:x --deny-host 10.0.0.0/8 --operation Read --topic t"
            return tool(ACLS, *at, *words.split(), code=code)

        eventually(lambda: observed(leading(ports), 4), 90, "Apache Kafka observes")
        config = tmp_path / "k" / "n4" / "server.properties"
        tool(QUORUM, *at, "--command-config", str(config), "add-controller")
        eventually(lambda: (row := leading(ports)) and voters(row) == [1, 4], 30)

        assert "require metadata version 4.4-IV1 or higher" in forbid(1)
        features("upgrade", "--feature", "metadata.version=31")
        features("downgrade", "--feature", "metadata.version=30")
        features("upgrade", "--release-version", "4.4")
        with Admin(node.bootstrap) as admin:
            found = {feature.name: feature.finalized for feature in admin.features()}
        assert (found["metadata.version"], found["share.version"]) == (33, 2)
        assert "host=10.0.0.0/8" in forbid()
        said = tool(CLUSTER_TOOL, "unregister-controller", *at, "--id", "4")
        assert "Controller 4 is no longer registered." in said, "and it registers again, since it runs"
        for leader, why in ((1, "cannot be lowered from 33 (4.4-IV2) to 30 (4.3-IV0)"), (4, "Refusing")):
            if leader == 4:
                node.barnabas("quorum", "-b", node.bootstrap, "transfer-leadership", "--to", "4")
            assert why in features("downgrade", "--metadata", "4.3", code=1)
            for other, refusal in ((9, "ControllerIdNotRegistered"), (leader, "cannot unregister itself")):
                said = tool(CLUSTER_TOOL, "unregister-controller", *at, "--id", str(other), code=1)
                assert refusal in said
