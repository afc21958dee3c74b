"""The same requests, good and malformed, are answered as a real Apache Kafka 4.3.1 answered them.

Its answers lie in `apache_answers.json`; `apache_cases` says how they were recorded.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.broker.apache_cases import INTERNAL, TOPICS, cases
from tests.broker.harness import WALL, Node

from barnabas.sim.kernel.disk import MemoryDisk

ANSWERS = json.loads((Path(__file__).parent / "apache_answers.json").read_text())


def test_every_answer_is_that_of_apache_kafka(disk: MemoryDisk) -> None:
    node = Node(disk)
    for name, settings in {**TOPICS, INTERNAL: {}}.items():
        node.create(name, **{key.replace(".", "_"): value for key, value in settings.items()})
    ids = {name: topic.id for name, topic in node.image.topics_by_name.items()}
    ours = {}
    for case in cases(WALL):
        answer = node.ask(case.build(ids), case.version)
        node.turn()
        ours[case.label] = case.read(answer.message, WALL)
    assert len(ours) > 100
    different = {label: (ANSWERS[label], given) for label, given in ours.items() if ANSWERS[label] != given}
    assert different == {}
