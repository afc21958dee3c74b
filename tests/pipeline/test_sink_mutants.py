"""Planted bugs in the sink: each makes a drawn history lose rows, or have them twice."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from tests.pipeline.sink_histories import History, committed

from barnabas.client.admin.admin import Admin
from barnabas.errors import BarnabasError
from barnabas.sim.kernel.mutants import Mutant, applied, mutant
from barnabas.testing.cluster import Cluster as Kafka

_DRIVER = "pipeline.sink.batch SinkDriver"
_LOG = "pipeline.sink.decision_log DecisionLog"
_TASK = "pipeline.sink.task"
_COMMITS = """claim = self._log.write(done[0].driver, decision)
    self._end(decision, commit=True)
    self._log.write(claim, decision._replace(ended=True))"""
SEEDS = 24

MUTANTS = (
    mutant(
        "committed before it is decided",
        "the transactions are committed first, and the decision is written then",
        f"{_DRIVER}.commit",
        _COMMITS,
        "self._end(decision, commit=True)\n    claim = self._log.write(done[0].driver, decision)",
        1,
    ),
    mutant(
        "ended before it is committed",
        "the decision says that everything is committed before it is",
        f"{_DRIVER}.commit",
        _COMMITS,
        "claim = self._log.write(done[0].driver, decision)\n"
        "    self._log.write(claim, decision._replace(ended=True))\n"
        "    self._end(decision, commit=True)",
        1,
    ),
    mutant(
        "aborted after the decision",
        "a failed commit aborts what was decided",
        f"{_DRIVER}.abort",
        "if last is not None and last.batch >= batch:",
        "if False:",
        1,
    ),
    mutant(
        "an unfenced driver",
        "a driver that was replaced can still decide",
        f"{_LOG}.write",
        "producer.resume(claim)",
        "producer.claim()",
        1,
    ),
    mutant(
        "recovery is skipped",
        "a new driver leaves alone what was decided and not committed",
        f"{_DRIVER}.begin",
        "if last is not None and not last.ended:",
        "if False:",
        1,
    ),
    mutant(
        "recovery aborts",
        "a new driver aborts what was decided",
        f"{_DRIVER}.begin",
        "self._end(last, commit=True)",
        "self._end(last, commit=False)",
        1,
    ),
    mutant(
        "strays go first",
        "a new driver aborts whatever is open before it ends what was decided",
        f"{_DRIVER}.begin",
        "claim = self._log.claim(self._id)",
        "claim = self._log.claim(self._id)\n    self._abort_strays()",
        1,
    ),
    mutant(
        "a failed micro-batch is committed",
        "abort commits what is prepared, though nothing was decided",
        f"{_DRIVER}.abort",
        "end_prepared(self._cluster, task.prepared, commit=False)",
        "end_prepared(self._cluster, task.prepared, commit=True)",
        1,
    ),
    mutant(
        "a failed task commits",
        "a task that fails commits what it has written so far",
        f"{_TASK} _give_up",
        "_quietly(producer.abort)",
        "_quietly(producer.commit)",
        1,
    ),
    mutant(
        "strays stay",
        "transactions that no decision names stay open",
        f"{_DRIVER}._abort_strays",
        "for id_ in strays((one.id for one in listed), self._prefix, self._id):",
        "for id_ in []:",
        1,
    ),
    mutant(
        "decided and written again",
        "the tasks of a micro-batch that was decided write it once more",
        "pipeline.sink.decisions is_written",
        "return claim.decided == batch",
        "return False",
        1,
    ),
    mutant(
        "one id for all tasks",
        "a worker begins again with the id of what it has prepared",
        f"{_TASK} _Worker.next_id",
        "(newest, used + 1)",
        "(newest, used)",
        1,
    ),
    mutant(
        "workers share their ids",
        "a worker that is left over fences another one",
        f"{_TASK} _Worker.__init__",
        "secrets.token_hex(6)",
        "'worker'",
        1,
    ),
    mutant(
        "only one task counts",
        "the decision names the transaction of one task",
        "pipeline.sink.decisions decision_of",
        "for task in done if task.prepared is not None",
        "for task in done[:1] if task.prepared is not None",
        1,
    ),
    mutant(
        "prepared before it is there",
        "a task hands its transaction in before its rows are acknowledged",
        "client.both.transactional Transacting.prepare",
        "await self._all_sent(timeout)",
        "pass",
        1,
    ),
)


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with Kafka() as kafka:
        yield kafka.bootstrap


_numbers = itertools.count()


SLOW = (
    "an unfenced driver",
    "recovery aborts",
    "recovery is skipped",
    "committed before it is decided",
    "strays stay",
)


@pytest.mark.parametrize(
    "planted",
    [pytest.param(one, id=one.name, marks=pytest.mark.slow if one.name in SLOW else ()) for one in MUTANTS],
)
def test_a_planted_bug_is_found(bootstrap: str, planted: Mutant) -> None:
    with applied(planted):
        assert any(_breaks(bootstrap, seed) for seed in range(SEEDS)), planted.says


def _breaks(bootstrap: str, seed: int) -> bool:
    """Whether rows of this history are lost or there twice, or it comes to no end."""
    name = f"planted-{next(_numbers)}"
    with Admin(bootstrap) as admin:
        admin.create_topic(name, partitions=2)
    history = History(bootstrap, name, name, seed)
    try:
        history.run()
    except BarnabasError:
        return True
    finally:
        history.close()
    return committed(bootstrap, name) != history.expected()
