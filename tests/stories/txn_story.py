"""Stories of one transactional id, its coordinator, and the brokers that write its markers."""

from __future__ import annotations

from typing import Any

from tests.broker.transacting import TransactionWorld
from tests.stories.transcript import Transcript, options, plain

from barnabas.errors import ErrorCode


class TxnStory(Transcript):
    """Producers have letters for names; brokers 1 and 2 lead the partitions 0 and 2, 1 and 3."""

    def __init__(self) -> None:
        super().__init__()
        self.world = TransactionWorld()
        self.coordinator_epoch = 5
        self.client = 2
        self.producers: dict[str, tuple[int, int]] = {}

    def _tell(self, who: str, what: str, answer: Any) -> None:
        if answer is None:
            self.say(f"{who}: {what} waits")
        elif isinstance(answer, ErrorCode):
            self.say(f"{who}: {what} {answer.name}")
        else:
            self.producers[who] = answer
            self.say(f"{who}: {what} ok, producer {answer[0]} epoch {answer[1]}")

    # ------------------------------------------------------------ what producers do

    def do_clients(self, *words: str) -> None:
        """`version=` the transaction.version that the producers speak."""
        self.client = int(options(words)["version"])

    def do_init(self, who: str, *words: str) -> None:
        """`timeout=` seconds; `again`: the producer gives the id and epoch that it has."""
        timeout_ms = int(options(words).get("timeout", "60")) * 1000
        given = self.producers[who] if "again" in plain(words) else None
        self._tell(who, "init", self.world.init(given=given, timeout_ms=timeout_ms))

    def do_add(self, who: str, *partitions: str) -> None:
        answer = self.world.add(self.producers[who], *map(int, partitions), client=self.client)
        self._tell(who, "add", answer)

    def do_verify(self, who: str, partition: str) -> None:
        """The leader of a partition asks about a batch of the producer."""
        self._tell(who, "verify", self.world.verify(self.producers[who], int(partition)))

    def _end(self, who: str, commit: bool) -> None:
        what = "commit" if commit else "abort"
        self._tell(who, what, self.world.end(self.producers[who], commit, client=self.client))

    def do_commit(self, who: str) -> None:
        self._end(who, True)

    def do_abort(self, who: str) -> None:
        self._end(who, False)

    def do_retry(self, who: str, what: str) -> None:
        """The answer got lost: the producer ends the transaction once more, in the epoch that it had."""
        producer_id, epoch = self.producers[who]
        self.producers[who] = (producer_id, epoch - 1)
        self._end(who, what == "commit")

    # ------------------------------------------------------------ what happens to them

    def do_mark(self, *words: str) -> None:
        """Brokers (all, when none is named) write their markers, or answer `error=`."""
        error = ErrorCode[options(words).get("error", "NONE")]
        before = len(self.world.sent)
        self.world.mark(*map(int, plain(words)), error=error)
        for broker, request in self.world.sent[before:]:
            for marker in request.markers:
                partitions = " ".join(
                    str(index) for topic in marker.topics for index in topic.partition_indexes
                )
                what = "commit" if marker.transaction_result else "abort"
                self.say(
                    f"broker {broker}: {what} of producer {marker.producer_id} epoch {marker.producer_epoch}, "
                    f"by coordinator {marker.coordinator_epoch}, in {partitions}"
                )

    def do_wait(self, seconds: str) -> None:
        self.world.run(float(seconds))

    def do_replicas(self, what: str) -> None:
        """`stop`: the coordinator's followers do not fetch; `follow`: they do."""
        self.world.broker.hold = what == "stop"
        if not self.world.broker.hold:
            self.world.partition.high_watermark = self.world.partition.log.log_end_offset
            self.world.broker.release()

    def do_takeover(self) -> None:
        """Another coordinator reads what the last one wrote."""
        self.coordinator_epoch += 1
        self.world = TransactionWorld(self.world.partition, epoch=self.coordinator_epoch)
        self.do_show()

    def do_show(self) -> None:
        loading = self.world.transactions.log.loading
        if loading:
            self.say("loading")
            return
        current = self.world.current()
        partitions = " ".join(str(tp.partition) for tp in sorted(current.partitions))
        self.say(f"{current.state.title}, epoch {current.epoch}" + (f": {partitions}" if partitions else ""))
