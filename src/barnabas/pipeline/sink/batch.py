"""The driver's steps of a micro-batch: begin it, and commit or abort it.

Spark plans and commits in different processes, and may be in another one after each failure: everything that
one step needs of another is in the decision log, or comes with the tasks' messages.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from barnabas.client.admin.transactions import list_transactions
from barnabas.client.both.awaited import at_once
from barnabas.client.cluster import Cluster
from barnabas.client.producing.transaction_machine import ProducerEpoch
from barnabas.client.producing.transactions import Transactions, end_prepared
from barnabas.errors import BarnabasError, ErrorCode, KafkaError
from barnabas.pipeline.sink.decision_log import DRIVER_TIMEOUT_S, DecisionLog
from barnabas.pipeline.sink.decisions import Claim, Decision, Done, decision_of, strays

__all__ = ["LostDecisionError", "SinkDriver", "prefix_of"]

log = logging.getLogger("barnabas.pipeline")

_ENDED_OTHERWISE = frozenset(
    {
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)


class LostDecisionError(BarnabasError):
    """Transactions that a decision names were aborted by their timeout before anybody committed them."""


def prefix_of(name: str) -> str:
    """What the transactional ids of a sink begin with."""
    return f"barnabas-sink-{name}-"


class SinkDriver:
    """The driver of the sink `name` over a cluster; `fail_on_data_loss` false: a lost decision is only logged."""

    def __init__(
        self, bootstrap: str, cluster: Cluster, name: str, *, fail_on_data_loss: bool = True
    ) -> None:
        self._cluster = cluster
        self._prefix = prefix_of(name)
        self._id = f"{self._prefix}driver"
        self._log = DecisionLog(bootstrap, cluster, name)
        self._fail_on_data_loss = fail_on_data_loss
        self._warned = False

    def __repr__(self) -> str:
        return f"<SinkDriver {self._id} {self._log!r}>"

    def close(self) -> None:
        """End its connections."""
        self._log.close()
        self._cluster.close()

    def begin(self) -> Claim:
        """Before any task of a micro-batch writes: carry out what was decided, and abort everything else.

        Raises LostDecisionError, KafkaError, ConnectionFailed.
        """
        claim = self._log.claim(self._id)
        last = self._log.last()
        if last is not None and not last.ended:
            log.warning("sink %s: micro-batch %d was decided and not ended: ending it", self._id, last.batch)
            self._end(last, commit=True)
            claim = self._log.write(claim, last._replace(ended=True))
        self._abort_strays()
        return Claim(claim, -1 if last is None else last.batch)

    def commit(self, batch: int, tasks: Iterable[Done]) -> None:
        """Every task is done: decide, then commit.  Raises BarnabasError; `begin` finds out what came of it."""
        done = list(tasks)
        decision = decision_of(batch, done)
        if decision is None:
            return
        self._warn_of_timeout(done)
        assert done[0].driver is not None
        claim = self._log.write(done[0].driver, decision)
        self._end(decision, commit=True)
        self._log.write(claim, decision._replace(ended=True))
        self._abort_strays()

    def abort(self, batch: int, tasks: Sequence[Done | None]) -> None:
        """The micro-batch failed.  What was decided nevertheless is committed, else what is known is aborted."""
        last = self._log.last()
        if last is not None and last.batch >= batch:
            if not last.ended:
                self._end(last, commit=True)
            return
        for task in tasks:
            if task is not None and task.prepared is not None:
                end_prepared(self._cluster, task.prepared, commit=False)

    def end_all(self, tasks: Iterable[Done | None], *, commit: bool) -> None:
        """Without a decision, for a write that nobody repeats: end every task's transaction, and all strays."""
        done = [task for task in tasks if task is not None]
        self._warn_of_timeout(done)
        prepared = tuple(task.prepared for task in done if task.prepared is not None)
        self._end(Decision(0, prepared), commit=commit)
        self._abort_strays()

    def _warn_of_timeout(self, tasks: Iterable[Done]) -> None:
        """Say once that what is prepared does not wait for ever."""
        kept = [task.kept_s for task in tasks if task.kept_s is not None]
        if kept and not self._warned:
            self._warned = True
            log.warning(
                "the brokers keep a prepared transaction for %.0f s at most: a driver that is down for longer "
                "between decision and commit loses it; set transaction.two.phase.commit.enable=true there",
                min(kept),
            )

    # -- transactions ------------------------------------------------------------------------------

    def _end(self, decision: Decision, *, commit: bool) -> None:
        lost: list[ProducerEpoch] = []
        for prepared in decision.transactions:
            try:
                end_prepared(self._cluster, prepared, commit=commit)
            except KafkaError as error:
                if error.code not in _ENDED_OTHERWISE:
                    raise
                lost.append(prepared)
        if lost and commit:
            said = (
                f"{len(lost)} of {len(decision.transactions)} transactions of micro-batch {decision.batch} "
                f"were decided and then aborted, by their timeout or by hand: {lost[0].transactional_id}, ..."
            )
            if self._fail_on_data_loss:
                raise LostDecisionError(
                    said,
                    next_step="their rows are not in the topic: write them again from the source, then go on "
                    "with failOnDataLoss=false once; transaction.two.phase.commit.enable on the brokers "
                    "keeps decided transactions for ever",
                )
            log.error("data loss: %s", said)

    def _abort_strays(self) -> None:
        """Transactions of tasks that ran twice, or of a run that died; their tasks can write no more."""
        listed = list_transactions(self._cluster, states=["Ongoing"])
        for id_ in strays((one.id for one in listed), self._prefix, self._id):
            log.warning("sink %s: aborting %s, which no decision names", self._id, id_)
            at_once(Transactions(self._cluster, id_, timeout_ms=int(DRIVER_TIMEOUT_S * 1000)).claim())
