"""What administrators ask about the loggers of a node, good and malformed, as Apache Kafka 4.3.1 answers it.

`logger_answers.json` holds what it answered.  To record it again:

    tests/server/apache/record.sh 29092 logger_cases > tests/server/logger_answers.json

The cases run in order, each at both listeners of the node; what one changes, later ones see.  `LOGGER` stands for
the name of a logger that is not the root: those are not the same in the two programs.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.server.admin_cases import plain

from barnabas.client.blocking import BlockingConnection
from barnabas.wire.codec.message import Message
from barnabas.wire.schemas.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestAlterableConfig,
    AlterConfigsRequestAlterConfigsResource,
    DescribeConfigsRequest,
    DescribeConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestAlterableConfig,
    IncrementalAlterConfigsRequestAlterConfigsResource,
    ListConfigResourcesRequest,
)
from barnabas.wire.schemas.topics import CreatableTopic, CreateTopicsRequest

NODE, ROOT = "1", "root"
"""The node's id, and the logger from which the others take their level."""
TOPIC, BROKER, LOGGERS, METRICS = 2, 4, 8, 16
SET, DELETE, APPEND, SUBTRACT = range(4)
LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL")

Change = tuple[str, int, str | None]
Asked = tuple[int, str, list[Change]]


class Case(NamedTuple):
    """A request and what it is."""

    label: str
    request: Message
    version: int | None = None


def _alter(label: str, *resources: Asked, only: bool = False) -> Case:
    request = IncrementalAlterConfigsRequest(
        resources=[
            IncrementalAlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    IncrementalAlterConfigsRequestAlterableConfig(
                        name=key, config_operation=operation, value=value
                    )
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ],
        validate_only=only,
    )
    return Case(f"alter: {label}", request)


def _describe(label: str, *names: str, keys: list[str] | None, version: int = 4, words: bool = False) -> Case:
    resources = [
        DescribeConfigsResource(resource_type=LOGGERS, resource_name=name, configuration_keys=keys)
        for name in names
    ]
    request = DescribeConfigsRequest(
        resources=resources, include_synonyms=True, include_documentation=words and version >= 3
    )
    return Case(f"describe: {label}", request, version)


def cases(logger: str) -> Iterator[Case]:
    """All cases, about the root and this logger."""
    both = [ROOT, logger]

    def ours(*changes: Change) -> Asked:
        return LOGGERS, NODE, list(changes)

    yield _alter("the root is set to INFO", ours((ROOT, SET, "INFO")))
    yield from _described(both)
    for level in (*LEVELS, "OFF", "ALL", "WARNING", "CRITICAL", "debug", " INFO", "INFO ", "", "20"):
        yield _alter(f"{level!r}", ours((logger, SET, level)))
        yield _describe(f"after {level!r}", NODE, keys=both)
    yield _alter("no value", ours((logger, SET, None)))
    yield _alter("a logger that there is not", ours(("nobody", SET, "INFO")))
    yield _alter("a logger without a name", ours(("", SET, "INFO")))
    yield _alter("a logger in other letters", ours((logger.upper(), SET, "INFO")))
    yield _alter("only tried", ours((logger, SET, "TRACE")), only=True)
    yield _alter("only tried, wrong", ours((logger, SET, "LOUD")), only=True)
    yield _alter("a good and a bad one", ours((ROOT, SET, "WARN"), (logger, SET, "LOUD")))
    yield _alter("the same twice", ours((logger, SET, "DEBUG"), (logger, SET, "DEBUG")))
    yield _alter("the same logger, two levels", ours((logger, SET, "DEBUG"), (logger, SET, "ERROR")))
    yield _alter("nothing", ours())
    yield _describe("what was refused changed nothing", NODE, keys=both)
    for operation in (APPEND, SUBTRACT, 4, -1):
        yield _alter(f"operation {operation}", ours((logger, operation, "INFO")))
    yield _alter("append to a logger that there is not", ours(("nobody", APPEND, "INFO")))
    yield _alter("the root is set", ours((ROOT, SET, "ERROR")))
    yield _describe("a level of its own stays", NODE, keys=both)
    yield _alter("the level of its own goes", ours((logger, DELETE, None)))
    yield _describe("it has that of the root", NODE, keys=both)
    yield _alter("what goes has a value", ours((logger, DELETE, "DEBUG")))
    yield _alter("the level of the root cannot go", ours((ROOT, DELETE, None)))
    yield _alter("the level of a logger that there is not goes", ours(("nobody", DELETE, None)))
    yield _alter("the root is set back", ours((ROOT, SET, "INFO")))
    yield from _of_other_nodes(logger)
    yield from _with_others(logger)
    yield from _replaced(logger)
    yield _describe("at the end", NODE, keys=both)


def _described(both: list[str]) -> Iterator[Case]:
    for version in (1, 2, 3, 4):
        yield _describe(f"both, version {version}", NODE, keys=both, version=version, words=True)
    yield _describe("one", NODE, keys=both[:1])
    yield _describe("none", NODE, keys=["nobody"])
    yield _describe("twice", NODE, NODE, keys=both)
    for name in ("", "2", "-1", "x", "01", " 1", "1.0", "99999999999"):
        yield _describe(f"of node {name!r}", name, keys=both)


def _of_other_nodes(logger: str) -> Iterator[Case]:
    for name in ("", "2", "-1", "x", "01", " 1", "1.0", "99999999999"):
        yield _alter(f"of node {name!r}", (LOGGERS, name, [(logger, SET, "INFO")]))


def _with_others(logger: str) -> Iterator[Case]:
    mine: Asked = (LOGGERS, NODE, [(logger, SET, "DEBUG")])
    bad: Asked = (LOGGERS, NODE, [(logger, SET, "LOUD")])
    topic: Asked = (TOPIC, "one", [("retention.ms", SET, "100000")])
    yield _alter("with a topic", mine, topic)
    yield _alter("after a topic", topic, mine)
    yield _alter("a bad one with a topic", bad, topic)
    yield _alter("with a topic that there is not", mine, (TOPIC, "none", topic[2]))
    yield _alter("with a setting of the broker", mine, (BROKER, NODE, [("log.cleaner.threads", SET, "1")]))
    yield _alter("with metrics", (METRICS, "m", [("metrics", SET, "a")]), mine)
    yield _alter("twice the same resource", mine, mine)
    yield _alter("twice the same resource, and a topic", mine, mine, topic)
    yield _describe("after all of these", NODE, keys=[ROOT, logger])


def _replaced(logger: str) -> Iterator[Case]:
    def replace(label: str, *resources: tuple[int, str, str, str]) -> Case:
        rows = [
            AlterConfigsRequestAlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[AlterConfigsRequestAlterableConfig(name=key, value=value)],
            )
            for kind, name, key, value in resources
        ]
        return Case(f"replace: {label}", AlterConfigsRequest(resources=rows))

    yield replace("a level", (LOGGERS, NODE, logger, "INFO"))
    yield replace("of another node", (LOGGERS, "2", logger, "INFO"))
    yield replace("with a topic", (LOGGERS, NODE, logger, "INFO"), (TOPIC, "one", "retention.ms", "100001"))


def listed() -> Iterator[Case]:
    """What brokers only are asked."""
    for kinds in ([LOGGERS], [BROKER, LOGGERS], [LOGGERS, LOGGERS]):
        yield Case(f"list {kinds}", ListConfigResourcesRequest(resource_types=kinds), 1)


def a_logger(connection: BlockingConnection) -> str:
    """The name of one that is not the root."""
    request = DescribeConfigsRequest(
        resources=[
            DescribeConfigsResource(resource_type=LOGGERS, resource_name=NODE, configuration_keys=None)
        ]
    )
    [result] = connection.request(request).results
    return min(config.name for config in result.configs if config.name != ROOT)


def asked_in_turn(client: tuple[str, int], controller: tuple[str, int]) -> dict[str, Any]:
    """What a node answers at both listeners; its topic must not exist yet."""
    answers: dict[str, Any] = {}
    with BlockingConnection(*client, client_id="test") as connection:
        topic = CreatableTopic(name="one", num_partitions=1, replication_factor=1)
        created = connection.request(CreateTopicsRequest(timeout_ms=10_000, topics=[topic]))
        assert created.topics[0].error_code == 0, created
        logger = a_logger(connection)
        for case in (*cases(logger), *listed()):
            answers[case.label] = _asked(connection, case, logger)
    with BlockingConnection(*controller, client_id="test") as connection:
        for case in cases(logger):
            answers[f"controller, {case.label}"] = _asked(connection, case, logger)
    return answers


def _asked(connection: BlockingConnection, case: Case, logger: str) -> Any:
    """The answer, or what ended the connection or kept the request from being sent."""
    answer = plain(connection.request(case.request, case.version))
    text: str = json.dumps(answer).replace(json.dumps(logger), '"LOGGER"')
    return json.loads(text)


def record(address: str) -> dict[str, Any]:
    """Ask a real node; its controller is at the next port."""
    host, _, port = address.rpartition(":")
    return asked_in_turn((host, int(port)), (host, int(port) + 1))


if __name__ == "__main__":
    json.dump(record(sys.argv[1]), sys.stdout, indent=1)
    sys.stdout.write("\n")
