"""The messages of the checker: which operations show an anomaly."""

from __future__ import annotations

from barnabas.sim.cluster.history import End, History, Outcome

__all__ = ["Words"]


class Words:
    """Operations in words: a value stands for its send, a number for a poll."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._sends: dict[int, int] | None = None

    # ---- operations --------------------------------------------------------------------------------------

    def _who(self, process: int) -> str:
        return self.history.processes[process].name

    def value(self, value: int) -> str:
        """A record and what became of it."""
        if self._sends is None:
            self._sends = {v: number for number, v in enumerate(self.history.sends.value)}
        number = self._sends.get(value)
        return f"{value} (nobody sent it)" if number is None else self.send(number)

    def send(self, number: int) -> str:
        """A send, whole."""
        sends = self.history.sends
        outcome = Outcome(sends.outcome[number])
        became = "unknown"
        if outcome is Outcome.OK:
            where = f" at offset {sends.offset[number]}" if sends.offset[number] >= 0 else ""
            became = f"acknowledged{where}, {sends.completed[number]:.3f} s"
        elif outcome is Outcome.FAILED:
            became = f"failed for sure, {sends.completed[number]:.3f} s"
        return (
            f"{sends.value[number]} (sent by {self._who(sends.process[number])} "
            f"to {self.history.partitions[sends.partition[number]]} at {sends.invoked[number]:.3f} s, {became})"
        )

    def poll(self, poll: int) -> str:
        """A poll, whole."""
        polls = self.history.polls
        rows = polls.rows(poll)
        got = f"offsets {polls.offset[rows.start]} to {polls.offset[rows.stop - 1]}" if rows else "nothing"
        position = f" from {polls.position[poll]}" if polls.position[poll] >= 0 else ""
        return (
            f"{self._who(polls.process[poll])} polled "
            f"{self.history.partitions[polls.partition[poll]]}{position}, "
            f"{polls.invoked[poll]:.3f} to {polls.completed[poll]:.3f} s, and got {got}"
        )

    # ---- anomalies ---------------------------------------------------------------------------------------

    def two_values(self, partition: int, offset: int, first: int, second: int) -> str:
        where = self.history.partitions[partition]
        return f"at {where} offset {offset} stand {self.value(first)} and {self.value(second)}"

    def two_places(self, value: int, first: int, second: int, poll: int | None) -> str:
        by = "" if poll is None else f"; {self.poll(poll)}"
        return f"{self.value(value)} stands at {first} and at {second}{by}"

    def went_back(self, poll: int, last: int, offset: int) -> str:
        return f"{self.poll(poll)}: there is {offset} after {last}"

    def left_out(self, poll: int, last: int, offset: int, missing: int, value: int) -> str:
        return f"{self.poll(poll)}: after {last} came {offset}, but {missing} holds {self.value(value)}"

    def beyond(self, poll: int, offset: int) -> str:
        mark = self.history.polls.high_watermark[poll]
        return f"{self.poll(poll)}: {offset} is not below the high watermark {mark} of the same answer"

    def never_sent(self, value: int, poll: int) -> str:
        return f"{self.poll(poll)}, among them {value}, which nobody sent"

    def sent_elsewhere(self, number: int, poll: int) -> str:
        return f"{self.poll(poll)}, among them {self.send(number)}"

    def read_before(self, number: int, poll: int) -> str:
        return f"{self.poll(poll)}, among them {self.send(number)}, before it was sent"

    def read_though_failed(self, number: int, poll: int) -> str:
        return f"{self.poll(poll)}, among them {self.send(number)}"

    def read_though_aborted(self, number: int, poll: int) -> str:
        return f"{self.poll(poll)}, among them {self.send(number)}, whose transaction was aborted"

    def read_before_commit(self, number: int, poll: int) -> str:
        return f"{self.poll(poll)}, among them {self.send(number)}, whose transaction was open then"

    def torn(self, transaction: int, there: int, missing: int) -> str:
        process = self._who(self.history.transactions[transaction].process)
        return (
            f"of transaction {transaction} of {process} the last readers got {self.send(there)}, "
            f"but not {self.send(missing)}"
        )

    def lost(self, number: int) -> str:
        return f"{self.send(number)} was read by nobody, though offsets beyond it were"

    def nowhere(self, number: int) -> str:
        return f"{self.send(number)} was read by nobody, and everything was read"

    def before_the_start(self, number: int, start: int) -> str:
        return f"{self.send(number)} is gone: the log begins at {start}, and nobody deleted that far"

    def unseen(self, number: int, end: int) -> str:
        return f"{self.send(number)} was read by nobody: the last readers found the end at {end}"

    def vanished(self, value: int, offset: int, poll: int, now: int) -> str:
        instead = "" if now == value else f"; there stands {self.value(now)}"
        return f"{self.value(value)}: {self.poll(poll)}, and it stood at {offset}; at the end it is gone{instead}"

    def sent_back(self, first: int, second: int) -> str:
        return f"{self.send(first)}, and later {self.send(second)}"

    def overtaken(self, number: int, offset: int, known: int) -> str:
        return f"{self.send(number)} stands at {offset}, though offset {known} was known before it was sent"

    def went_short(self, end: End, known: int) -> str:
        where = self.history.partitions[end.partition]
        return (
            f"{self._who(end.process)} was told at {end.completed:.3f} s that {where} ends at {end.offset}; "
            f"it knew of an end at {known} before it asked ({end.invoked:.3f} s)"
        )
