"""Stories of one partition's log on a disk that forgets what was not synced."""

from __future__ import annotations

from tests.log.log_building import NOW, PATH, append, contents, marker, new_disk, open_log, small
from tests.log.log_building import batch as written_batch
from tests.log.test_log_compaction import Keyed, clean, put, records_of
from tests.stories.transcript import Transcript, options, plain

from barnabas.config import NO_FLUSH
from barnabas.errors import BarnabasError
from barnabas.log.files.removal import Removal
from barnabas.log.log import Log
from barnabas.model import Now
from barnabas.wire.records import read_batch_header


class LogStory(Transcript):
    """A leader's log.  Values are single words; a batch is what one `append` writes."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = new_disk()
        self.settings: dict[str, object] = {}
        self.now = NOW
        self.log: Log = open_log(self.disk)

    def _tell(self) -> None:
        log = self.log
        self.say(
            f"start {log.log_start_offset}  high watermark {log.high_watermark}  durable {log.durable_end_offset}"
            f"  written {log.written_end_offset}  end {log.log_end_offset}"
        )

    def _open(self, **more: object) -> None:
        try:
            self.log = open_log(self.disk, small(**self.settings), **more)  # type: ignore[arg-type]
        except BarnabasError as refusal:
            self.say(f"refused: {refusal}")
            return
        self._tell()

    # ------------------------------------------------------------ the life of a log

    def do_open(self, *words: str) -> None:
        """`segment=BYTES retention-bytes= retention-ms= policy=compact flush`: a new log with these settings."""
        given = options(words)
        names = {
            "segment": "segment_bytes",
            "retention-bytes": "retention_bytes",
            "retention-ms": "retention_ms",
            "delete-retention-ms": "delete_retention_ms",
        }
        policy = given.pop("policy", "delete")
        self.settings = {names[name]: int(value) for name, value in given.items()}
        self.settings["cleanup_policy"] = frozenset({policy})
        if "page-cache" in words:
            self.settings["flush_messages"] = NO_FLUSH
        self.disk = new_disk()
        self._open()

    def do_append(self, *words: str) -> None:
        """One batch of these values, `epoch=` the leader's, `producer=ID.EPOCH.SEQUENCE`, `at=` a time in ms."""
        given = options(words)
        producer = tuple(int(part) for part in given["producer"].split(".")) if "producer" in given else None
        data = written_batch(
            *(value.encode() for value in plain(words) if value != "transactional"),
            timestamp=NOW.wall_ms + int(given.get("at", "0")),
            producer=producer,  # type: ignore[arg-type]
            transactional="transactional" in words,
        )
        try:
            if known := self.log.producers.check(read_batch_header(data)):
                self.say(f"known already: offsets {known.first_offset} to {known.last_offset}")
                return
            appended = append(self.log, data, int(given.get("epoch", "0")), self.now)
        except BarnabasError as refusal:
            self.say(f"refused: {refusal}")
            return
        self.say(f"offsets {appended.first_offset} to {appended.last_offset}")

    def do_put(self, *pairs: str) -> None:
        """One batch of `key=value`; `key=` deletes the key.  It is synced and committed."""
        records: list[Keyed] = []
        for pair in pairs:
            key, _, value = pair.partition("=")
            records.append((key.encode(), value.encode() or None))
        first = put(self.log, *records, now=self.now)
        self.say(f"offsets {first} to {first + len(records) - 1}")

    def do_compact(self) -> None:
        """Roll, then compact all that is committed."""
        clean(self.log, self.now)
        self._tell()

    def do_pairs(self) -> None:
        """Every record with its key, as a consumer gets them; `-`: the key is deleted."""
        self.say(
            "  ".join(
                f"{offset}:{(key or b'').decode()}={'-' if value is None else value.decode()}"
                for offset, key, value in records_of(self.log)
            )
            or "nothing"
        )

    def do_marker(self, how: str, producer: str, *words: str) -> None:
        """End the transaction of a producer ID.EPOCH: `commit` or `abort`."""
        id_, epoch = (int(part) for part in producer.split("."))
        data = marker(how == "commit", id_, epoch)
        appended = append(self.log, data, int(options(words).get("epoch", "0")), self.now)
        self.say(f"offset {appended.first_offset}")

    def do_write(self) -> None:
        self.log.write()
        self._tell()

    def do_sync(self) -> None:
        self.log.write()
        self.log.sync()
        self._tell()

    def do_commit(self, offset: str) -> None:
        """The in-sync replicas hold everything below this offset."""
        self.log.high_watermark = int(offset)
        self._tell()

    def do_power_cut(self, how: str = "all") -> None:
        """The machine loses its power, with it `all`, `some` or `none` of what was not synced; the next start."""
        self.disk.crash(how)  # type: ignore[arg-type]
        self._open()

    def do_kill(self, *words: str) -> None:
        """kill -9: the page cache survives; the next start."""
        self.disk.crash("kill")
        self._open()

    def do_stop(self) -> None:
        """A clean stop and the next start, which reads nothing again."""
        self.log.write()
        self.log.sync()
        self.log.close(self.now)
        self._open(clean=True, recovery_point=self.log.log_end_offset)

    def do_flip(self, name: str, position: str) -> None:
        """A byte of a file turns over behind our back."""
        self.disk.corrupt(f"{PATH}/{name}", int(position))

    def do_delete(self, name: str) -> None:
        self.disk.remove(f"{PATH}/{name}")

    # ------------------------------------------------------------ what changes it later

    def do_truncate(self, offset: str) -> None:
        self.log.truncate_to(int(offset), self.now)
        self._tell()

    def do_delete_records(self, offset: str) -> None:
        self.log.increment_log_start(int(offset))
        self._tell()

    def do_later(self, milliseconds: str) -> None:
        """Time passes, and the log does what is due: retention, deletion of files."""
        self.now = Now(self.now.mono + int(milliseconds) / 1000, self.now.wall_ms + int(milliseconds))
        for name in self.log.retain(self.now):
            self.say(f"deleted: {name}")
        Removal(self.disk, PATH, self.log.tick(self.now)).run()
        self._tell()

    def do_roll(self) -> None:
        self.log.roll(self.now)
        self._tell()

    # ------------------------------------------------------------ looking

    def do_read(self, start: str = "") -> None:
        """Every record from an offset on, as a consumer gets it."""
        try:
            found = contents(self.log, int(start) if start else None)
        except BarnabasError as refusal:
            self.say(f"refused: {refusal}")
            return
        self.say(
            " ".join(f"{offset}:{(value or b'-').decode(errors='replace')}" for offset, value in found)
            or "nothing"
        )

    def do_batches(self) -> None:
        for header in self.log.batches():
            kind = " control" if header.is_control else ""
            producer = (
                f" producer {header.producer_id}.{header.producer_epoch}" if header.producer_id >= 0 else ""
            )
            self.say(
                f"{header.base_offset} to {header.last_offset} epoch {header.leader_epoch}{producer}{kind}"
            )

    def do_files(self) -> None:
        for name in sorted(self.disk.list(PATH)):
            self.say(f"{name} {self.disk.size(f'{PATH}/{name}')} bytes")

    def do_epochs(self) -> None:
        """Leader epochs and where each begins, as the checkpoint has them."""
        pairs = zip(self.log.epochs.epochs, self.log.epochs.starts, strict=True)
        self.say("  ".join(f"epoch {epoch} from {start}" for epoch, start in pairs) or "none")

    def do_end_of_epoch(self, epoch: str) -> None:
        """What a leader answers to a follower that asks where an epoch ends (KIP-101, KIP-279)."""
        found, end = self.log.end_offset_for_epoch(int(epoch))
        self.say(f"epoch {found} ends at {end}")

    def do_stable(self) -> None:
        """Up to where read_committed reads."""
        self.say(f"last stable offset {self.log.last_stable_offset}")

    def do_aborted(self) -> None:
        for one in self.log.aborted_transactions(self.log.log_start_offset, self.log.log_end_offset):
            self.say(f"producer {one.producer_id}: from {one.first_offset} to {one.last_offset}")
