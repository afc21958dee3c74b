"""Hostile record batches get the answers of Apache Kafka 4.4.0, and nothing that is refused enters a log.

Its answers lie in `hostile_answers.json`; `tests/compat/test_hostile_batches.py` asks it again.
"""

from __future__ import annotations

from tests.broker.harness import WALL, Node
from tests.broker.hostile_batches import TOPICS, hostile_batches, known_answers

from barnabas.errors import CorruptRecordError
from barnabas.sim.kernel.disk import MemoryDisk
from barnabas.wire.records import batches, check_crc, read_records


def test_every_hostile_batch_is_answered_on_every_topic_as_by_apache_kafka(disk: MemoryDisk) -> None:
    node = Node(disk)
    logs = {}
    for name, settings in TOPICS.items():
        logs[name] = node.create(
            name, **{key.replace(".", "_"): value for key, value in settings.items()}
        ).log
    known, different = known_answers(), {}
    cases = hostile_batches(WALL)
    for case in cases:
        ours = {}
        for name, log in logs.items():
            before = log.log_end_offset
            answer = node.append(case.batch, name, version=9)
            ours[name] = [answer.error_code, log.log_end_offset - before]
        if ours != known[case.name]:
            different[case.name] = (known[case.name], ours)
    assert different == {}
    assert len(cases) * len(TOPICS) > 672
    assert node.outside.bytes_held == 0


def test_every_record_that_was_taken_can_be_read_again_unless_its_length_is_a_lie(disk: MemoryDisk) -> None:
    """Apache Kafka takes packed records whose lengths lie, and nobody can read them: the error says where."""
    node = Node(disk)
    names: dict[tuple[str, int], str] = {}
    for name, settings in TOPICS.items():
        node.create(name, **{key.replace(".", "_"): value for key, value in settings.items()})
    for case in hostile_batches(WALL):
        for name in TOPICS:
            names[name, node.append(case.batch, name, version=9).base_offset] = case.name
    lies = 0
    for name in TOPICS:
        partition = node.broker.partition(name, 0)
        assert partition is not None
        stored, next_offset = partition.read(0, 1 << 30).read(), 0
        for position, header in batches(stored):
            assert check_crc(stored, position, header)
            case_name = names[name, header.base_offset]
            if header.codec and "length" in case_name:
                try:
                    read_records(stored, position, header)
                except CorruptRecordError as error:
                    assert f"the batch at offset {header.base_offset}: " in error.message
                    lies += 1
            else:
                records = read_records(stored, position, header)
                offsets = [record.offset for record in records]
                assert offsets == list(range(next_offset, next_offset + len(records)))
            next_offset = header.last_offset + 1
        assert next_offset == partition.log.log_end_offset > 90
    assert lies > 300
