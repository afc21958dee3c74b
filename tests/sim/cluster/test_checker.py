"""The checker of histories is checked: it is silent on right ones, and one damaged place raises its alarm."""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.sim.cluster.histories import right_history

from barnabas.sim.cluster.checker import EXPLAINED, KINDS, Verdict, check
from barnabas.sim.cluster.history import History, dump, load

Lines = list[dict[str, Any]]
Damage = Callable[[Lines, random.Random], bool]

DAMAGES: dict[str, Damage] = {}


def damages(kind: str) -> Callable[[Damage], Damage]:
    """A function that damages one place; false where the history has no such place."""

    def note(damage: Damage) -> Damage:
        DAMAGES[kind] = damage
        return damage

    return note


def lines_of(history: History) -> Lines:
    file = io.StringIO()
    dump(history, file)
    return [json.loads(line) for line in file.getvalue().splitlines()]


def of(lines: Lines, op: str, **fields: Any) -> Lines:
    found = [line for line in lines if line["op"] == op]
    return [line for line in found if all(line.get(name) == value for name, value in fields.items())]


def verdict_of(lines: Lines) -> Verdict:
    return check(load(json.dumps(line) for line in lines))


def seen(lines: Lines) -> dict[int, list[tuple[dict[str, Any], int]]]:
    """Value -> the polls that brought it, and its offset there, oldest first."""
    found: dict[int, list[tuple[dict[str, Any], int]]] = {}
    for poll in of(lines, "poll"):
        for offset, value in poll["records"]:
            found.setdefault(value, []).append((poll, offset))
    return found


def plain_sends(lines: Lines, outcome: str = "ok") -> Lines:
    """Sends of which nothing excuses that they are missing."""
    repeating = {p["process"] for p in of(lines, "process") if p["repeats"]}
    compacted = {c["partition"] for c in of(lines, "compacts")}
    before = {d["partition"]: d["before"] for d in of(lines, "deleted")}
    return [
        send
        for send in of(lines, "send", outcome=outcome)
        if send["process"] not in repeating
        and send["partition"] not in compacted
        and "transaction" not in send
        and (outcome != "ok" or send["offset"] >= before.get(send["partition"], 0))
    ]


def take_out(lines: Lines, value: int, **fields: Any) -> None:
    for poll in of(lines, "poll", **fields):
        poll["records"] = [record for record in poll["records"] if record[1] != value]


# ---- one damage of each kind -----------------------------------------------------------------------------


@damages("lost write")
def nobody_reads_it(lines: Lines, rng: random.Random) -> bool:
    ends = {finished["partition"]: finished["end"] for finished in of(lines, "finished")}
    highest: dict[str, int] = dict.fromkeys(ends, -1)
    for poll in of(lines, "poll"):
        highest[poll["partition"]] = max([highest[poll["partition"]], *(o for o, _ in poll["records"])])
    sends = [s for s in plain_sends(lines) if s["offset"] < highest[s["partition"]]]
    if not sends:
        return False
    take_out(lines, rng.choice(sends)["value"])
    return True


@damages("unseen")
def the_last_record_is_cut_off(lines: Lines, rng: random.Random) -> bool:
    for finished in of(lines, "finished"):
        sends = [s for s in plain_sends(lines) if s["partition"] == finished["partition"]]
        last = max(sends, key=lambda send: int(send["offset"]), default=None)
        later = [
            offset
            for poll in of(lines, "poll", partition=finished["partition"])
            for offset, _ in poll["records"]
            if last is None or offset > last["offset"]
        ]
        ends = of(lines, "end", partition=finished["partition"])
        past = [
            poll
            for poll in of(lines, "poll", partition=finished["partition"])
            if last is not None and poll["position"] > last["offset"]
        ]
        if last is None or later or past or any(end["offset"] > last["offset"] for end in ends):
            continue
        finished["end"] = last["offset"]
        take_out(lines, last["value"])
        return True
    return False


@damages("vanished")
def the_last_readers_do_not_find_it(lines: Lines, rng: random.Random) -> bool:
    early = {v for poll in of(lines, "poll") if not poll.get("final") for _, v in poll["records"]}
    sends = [s for s in plain_sends(lines) + plain_sends(lines, "unknown") if s["value"] in early]
    before = {d["partition"]: d["before"] for d in of(lines, "deleted")}
    places = {value: places[0][1] for value, places in seen(lines).items()}
    sends = [s for s in sends if places[s["value"]] >= before.get(s["partition"], 0)]
    if not sends:
        return False
    take_out(lines, rng.choice(sends)["value"], final=True)
    return True


@damages("duplicate")
def it_stands_at_the_end_again(lines: Lines, rng: random.Random) -> bool:
    sends = plain_sends(lines)
    if not sends:
        return False
    send = rng.choice(sends)
    finished = of(lines, "finished", partition=send["partition"])[0]
    poll = of(lines, "poll", partition=send["partition"], final=True)[-1:]
    if not poll or send["value"] not in seen(lines):
        return False
    poll[0]["records"].append([finished["end"], send["value"]])
    poll[0]["high_watermark"] = finished["end"] + 1
    finished["end"] += 1
    return True


@damages("inconsistent offset")
def one_reader_sees_another_record(lines: Lines, rng: random.Random) -> bool:
    there = seen(lines)
    lost = [s for s in plain_sends(lines, "unknown") if s["value"] not in there]
    for unseen in rng.sample(lost, len(lost)):
        for poll in of(lines, "poll", partition=unseen["partition"]):
            if poll.get("final") or poll["invoked"] < unseen["invoked"]:
                continue
            for record in poll["records"]:
                others = [p for p, _ in there[record[1]] if p is not poll]
                known = [s for s in of(lines, "send", value=record[1]) if s["completed"] > unseen["invoked"]]
                if known and others and others[0]["completed"] > unseen["invoked"]:
                    if all(o < record[0] for o in known_before(lines, unseen)):
                        record[1] = unseen["value"]
                        return True
    return False


def known_before(lines: Lines, send: dict[str, Any]) -> list[int]:
    """The offsets of its partition that were known before this was sent."""
    where, when = send["partition"], send["invoked"]
    acked = [s["offset"] for s in of(lines, "send", partition=where, outcome="ok") if s["completed"] < when]
    polls = [p for p in of(lines, "poll", partition=where) if p["completed"] < when]
    return acked + [offset for poll in polls for offset, _ in poll["records"]]


@damages("aborted read")
def its_write_failed(lines: Lines, rng: random.Random) -> bool:
    there = seen(lines)
    sends = [s for s in plain_sends(lines, "unknown") if s["value"] in there]
    if not sends:
        return False
    rng.choice(sends)["outcome"] = "failed"
    return True


@damages("precommitted read")
def it_is_read_before_its_commit(lines: Lines, rng: random.Random) -> bool:
    there = seen(lines)
    for transaction in of(lines, "transaction"):
        for send in of(lines, "send", transaction=transaction["transaction"]):
            if transaction["commits"] and send["value"] in there:
                transaction["invoked"] = there[send["value"]][0][0]["completed"] + 1.0
                return True
    return False


@damages("torn transaction")
def one_part_is_not_there(lines: Lines, rng: random.Random) -> bool:
    there = seen(lines)
    for transaction in of(lines, "transaction", outcome=0):
        sends = of(lines, "send", transaction=transaction["transaction"], outcome="ok")
        if transaction["commits"] and len(sends) > 1 and all(s["value"] in there for s in sends):
            take_out(lines, rng.choice(sends)["value"])
            return True
    return False


@damages("phantom")
def nobody_sent_it(lines: Lines, rng: random.Random) -> bool:
    polls = [poll for poll in of(lines, "poll", final=True) if poll["records"]]
    if not polls:
        return False
    poll = polls[-1]
    finished = of(lines, "finished", partition=poll["partition"])[0]
    poll["records"].append([finished["end"], 1 << 40])
    poll["high_watermark"] = finished["end"] + 1
    finished["end"] += 1
    return True


@damages("nonmonotonic poll")
def it_gets_the_same_again(lines: Lines, rng: random.Random) -> bool:
    polls = [number for number, poll in enumerate(lines) if poll["op"] == "poll" and poll["records"]]
    if not polls:
        return False
    at = rng.choice(polls)
    again = {**lines[at], "records": [list(record) for record in lines[at]["records"]]}
    again.pop("assigned", None)
    lines.insert(at + 1, again)
    return True


@damages("int-nonmonotonic poll")
def a_record_comes_twice_in_a_poll(lines: Lines, rng: random.Random) -> bool:
    polls = [poll for poll in of(lines, "poll") if poll["records"]]
    records = rng.choice(polls)["records"]
    at = rng.randrange(len(records))
    records.insert(at, list(records[at]))
    return True


@damages("poll skip")
def a_whole_poll_is_left_out(lines: Lines, rng: random.Random) -> bool:
    after: dict[tuple[Any, Any], Any] = {}
    for poll in reversed(of(lines, "poll")):
        chain = (poll["process"], poll["partition"])
        if poll["records"] and not poll.get("final") and not poll.get("assigned") and after.get(chain):
            if any(v in {s["value"] for s in plain_sends(lines)} for _, v in poll["records"]):
                poll["records"] = []
                return True
        after[chain] = False if poll.get("assigned") else poll["records"] or after.get(chain)
    return False


@damages("int-poll skip")
def a_poll_has_a_hole(lines: Lines, rng: random.Random) -> bool:
    plain = {send["value"] for send in plain_sends(lines)}
    for poll in of(lines, "poll"):
        inner = [r for r in poll["records"][1:-1] if r[1] in plain]
        if inner and not poll.get("final"):
            poll["records"].remove(rng.choice(inner))
            return True
    return False


@damages("nonmonotonic send")
def two_were_asked_for_the_other_way_round(lines: Lines, rng: random.Random) -> bool:
    lasts: dict[tuple[Any, Any], int] = {}
    plain = plain_sends(lines)
    for number, send in enumerate(lines):
        if send["op"] != "send" or not any(send is one for one in plain):
            continue
        chain = (send["process"], send["partition"])
        first = lasts.get(chain)
        if first is not None:
            before = lines[first]
            if not known_between(lines, before, send):
                for name in ("value", "offset", "completed"):
                    before[name], send[name] = send[name], before[name]
                return True
        lasts[chain] = number
    return False


def known_between(lines: Lines, first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether anything at or above the first's offset was known, or either was read, before the second began."""
    reads = seen(lines)
    early = [
        poll
        for value in (first["value"], second["value"])
        for poll, _ in reads.get(value, [])
        if poll["completed"] <= second["invoked"]
    ]
    return bool(early) or any(offset >= first["offset"] for offset in known_before(lines, second))


@damages("overtaken")
def something_higher_was_known_before(lines: Lines, rng: random.Random) -> bool:
    there = seen(lines)
    for send in plain_sends(lines):
        first = min((p["completed"] for p, _ in there.get(send["value"], [])), default=1e9)
        higher = [
            other["completed"]
            for other in of(lines, "send", partition=send["partition"], outcome="ok")
            if other["offset"] > send["offset"]
        ]
        if higher and min(higher) < first:
            send["invoked"] = (min(higher) + first) / 2
            send["completed"] = max(send["completed"], send["invoked"])
            return True
    return False


@damages("end went back")
def an_end_is_told_that_was_passed(lines: Lines, rng: random.Random) -> bool:
    ends: dict[tuple[Any, Any], int] = {}
    for end in of(lines, "end"):
        chain = (end["process"], end["partition"])
        if ends.get(chain, 0) > 0:
            end["offset"] = ends[chain] - 1
            return True
        ends[chain] = end["offset"]
    return False


@damages("beyond the high watermark")
def a_poll_passes_the_high_watermark(lines: Lines, rng: random.Random) -> bool:
    poll = rng.choice([poll for poll in of(lines, "poll") if poll["records"]])
    poll["high_watermark"] = poll["records"][-1][0]
    return True


# ---- tests -----------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_right_history_raises_no_alarm(seed: int) -> None:
    verdict = check(right_history(seed))
    assert verdict.ok, "\n".join(verdict.tell())


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_history_that_was_text_is_the_same_history(seed: int) -> None:
    history = right_history(seed, 300)
    again = load(json.dumps(line) for line in lines_of(history))
    assert lines_of(again) == lines_of(history)
    assert check(again).ok


@pytest.mark.parametrize("kind", DAMAGES)
def test_one_damaged_place_raises_exactly_its_alarm(kind: str) -> None:
    damaged = 0
    for seed in range(400):
        lines = lines_of(right_history(seed, 400))
        if not DAMAGES[kind](lines, random.Random(seed)):
            continue
        verdict = verdict_of(lines)
        assert set(verdict.counts) == {kind}, f"seed {seed}\n" + "\n".join(verdict.tell())
        damaged += 1
        if damaged == 12:
            return
    assert damaged >= 3, f"only {damaged} histories had a place to damage"


def test_every_anomaly_has_its_damage() -> None:
    assert set(DAMAGES) == set(KINDS)


def test_an_alarm_names_the_operations_that_show_it() -> None:
    history = History()
    producer, one, other = (history.process(name) for name in ("producer", "one reader", "other reader"))
    for value in (1, 2, 3):
        number = history.send(producer, "orders-0", value, value / 10)
        history.acknowledged(number, value - 1, value / 10 + 0.05)
    history.assigned(one, "orders-0")
    history.poll(one, "orders-0", 0, 1.0, 1.1, [(0, 1), (2, 3)])
    history.assigned(other, "orders-0")
    history.poll(other, "orders-0", 2, 1.2, 1.3, [(2, 3)])
    verdict = check(history)
    assert list(verdict.tell()) == [
        "3 writes acknowledged, 0 failed, 0 of unknown fate; 3 records read in 2 polls of 1 partitions",
        "1 x lost write: an acknowledged record was not there for those who read past its offset",
        "  2 (sent by producer to orders-0 at 0.200 s, acknowledged at offset 1, 0.250 s) was read by nobody, "
        "though offsets beyond it were",
    ]


def test_what_no_consumer_passed_over_is_not_called_lost() -> None:
    history = History()
    producer, reader = history.process("producer"), history.process("reader")
    for value in range(6):
        history.acknowledged(history.send(producer, "t-0", value, value), value, value + 0.5)
    history.assigned(reader, "t-0")
    history.poll(reader, "t-0", 0, 10.0, 10.1, [(0, 0)])
    history.assigned(reader, "t-0")
    history.poll(reader, "t-0", 4, 11.0, 11.1, [(4, 4), (5, 5)])
    assert check(history).ok


def test_the_last_record_is_lost_when_the_readers_reached_an_end_behind_it_without_meeting_it() -> None:
    """No poll passed over its offset: the last readers were told an end beyond it, and got nothing there."""
    history = History()
    producer, reader = history.process("producer"), history.process("reader")
    for value in range(3):
        history.acknowledged(history.send(producer, "t-0", value, value), value, value + 0.5)
    history.assigned(reader, "t-0")
    history.poll(reader, "t-0", 0, 10.0, 10.1, [(0, 0), (1, 1)], final=True)
    assert check(history).ok, "nobody said that everything was read"
    history.finished("t-0", 0, 3)
    assert check(history).counts == {"lost write": 1}


def test_of_a_thousand_alarms_a_few_are_explained_and_all_are_counted() -> None:
    history = History()
    reader = history.process("reader")
    history.poll(reader, "t-0", 0, 0.0, 1.0, [(n, n) for n in range(1000)])
    verdict = check(history)
    assert verdict.counts == {"phantom": 1000}
    assert len(verdict.anomalies) == EXPLAINED


def test_a_value_that_is_sent_twice_makes_a_history_useless() -> None:
    history = History()
    for at in (0.0, 1.0):
        history.send(0, "t-0", 7, at)
    with pytest.raises(ValueError, match="sent twice"):
        check(history)


def test_a_line_that_is_no_operation_is_named() -> None:
    with pytest.raises(ValueError, match="line 2 is no operation"):
        load(['{"op": "compacts", "partition": "t-0"}', '{"op": "guess"}'])


def test_histories_of_several_clients_are_put_together_line_by_line() -> None:
    lines: Lines = [
        {"op": "process", "process": "java", "name": "a Java producer"},
        {
            "op": "send",
            "process": "java",
            "partition": "t-0",
            "value": 5,
            "invoked": 1.0,
            "outcome": "ok",
            "offset": 0,
        },
        {
            "op": "poll",
            "process": "c",
            "partition": "t-0",
            "invoked": 2.0,
            "completed": 2.1,
            "records": [[0, 6]],
        },
        {"op": "send", "process": "java", "partition": "t-0", "value": 6, "invoked": 1.5, "completed": 1.6},
    ]
    verdict = verdict_of(lines)
    assert set(verdict.counts) == {"inconsistent offset"}
    assert "a Java producer" in verdict.anomalies[0].says


def a_million_operations() -> History:
    """Eight producers, three readers of everything, sixteen partitions."""
    history = History()
    producers = [history.process(f"producer {n}") for n in range(8)]
    readers = [history.process(f"reader {n}") for n in range(3)]
    for value in range(250_000):
        number = history.send(producers[value % 8], f"t-{value % 16}", value, value * 1e-4)
        history.acknowledged(number, value // 16, value * 1e-4 + 0.01)
    for reader in readers:
        for partition in range(16):
            for start in range(0, 250_000 // 16, 125):
                records = [(offset, offset * 16 + partition) for offset in range(start, start + 125)]
                history.poll(
                    reader, f"t-{partition}", start, 100.0 + start, 100.0 + start, records, final=True
                )
    for partition in range(16):
        history.finished(f"t-{partition}", 0, 15_625)
    return history


def test_a_million_operations_take_less_than_a_minute() -> None:
    history = a_million_operations()
    assert len(history) == 1_000_000
    history.sends.outcome[77_777] = 2
    began = time.process_time()
    verdict = check(history)
    assert verdict.counts == {"aborted read": 1}
    assert time.process_time() - began < 60
