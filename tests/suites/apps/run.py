"""One run of one application: its cluster, the kills, and the verdict."""

from __future__ import annotations

import contextlib
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.suites.apache import OURS, cluster
from tests.suites.apps import java
from tests.suites.apps.declared import App
from tests.suites.apps.stage import Outcome, Stage
from tests.suites.kills import Kills

SETTINGS = {"auto.create.topics.enable": "false"}
"""Applications create their topics, as in a cluster of production."""


@dataclass(frozen=True)
class AppResult:
    """What one run showed; a line of docs/compatibility.json."""

    app: str
    peer: str
    """Whose cluster it was."""
    nodes: int
    minutes: float
    kills_every: float
    kills: int
    """How many nodes were ended by kill -9."""
    numbers: int
    """How many went in."""
    lost: int
    twice: int
    seen: list[str]
    wrong: list[str]
    seconds: int
    day: str

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def good(self) -> bool:
        return not (self.lost or self.twice or self.wrong)


def run(
    app: App,
    *,
    nodes: int,
    kills_every: float,
    minutes: float,
    rate: int,
    keep: Path | None,
    peer: str = OURS,
) -> AppResult:
    """Start a cluster, run the application while nodes are killed, count, stop the cluster."""
    java.prepare()
    began = time.monotonic()
    with (
        _folder(app, keep) as folder,
        cluster(peer, SETTINGS, nodes=nodes, directory=str(folder / "cluster")) as started,
        Kills(started, kills_every) as kills,
    ):
        stage = Stage(started.bootstrap, folder, minutes * 60, rate, copies=min(3, nodes), calm=kills.stop)
        try:
            outcome = app.run(stage)
        except Exception:
            outcome = Outcome(wrong=[traceback.format_exc()[-3000:]])
    return result(app, outcome, peer, nodes, minutes, kills_every, kills.count, began)


def against(
    app: App, bootstrap: str, *, nodes: int, peer: str, minutes: float, rate: int, keep: Path | None
) -> AppResult:
    """Run the application against a cluster that runs already, which nobody kills."""
    java.prepare()
    began = time.monotonic()
    with _folder(app, keep) as folder:
        outcome = app.run(Stage(bootstrap, folder, minutes * 60, rate, copies=min(3, nodes)))
    return result(app, outcome, peer, nodes, minutes, 0.0, 0, began)


def result(
    app: App,
    outcome: Outcome,
    peer: str,
    nodes: int,
    minutes: float,
    kills_every: float,
    kills: int,
    began: float,
) -> AppResult:
    """An outcome as it is kept."""
    tallies = outcome.tallies
    wrong = [f"{where}: {found}" for where, found in tallies.items() if not found.whole] + outcome.wrong
    return AppResult(
        app=app.name,
        peer=peer,
        nodes=nodes,
        minutes=minutes,
        kills_every=kills_every,
        kills=kills,
        numbers=max((found.written for found in tallies.values()), default=0),
        lost=sum(found.lost for found in tallies.values()),
        twice=sum(found.twice for found in tallies.values()),
        seen=outcome.seen,
        wrong=wrong,
        seconds=round(time.monotonic() - began),
        day=datetime.now(UTC).date().isoformat(),
    )


@contextlib.contextmanager
def _folder(app: App, keep: Path | None) -> Iterator[Path]:
    """A folder for this run: below `keep`, where it stays, or a temporary one."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix=f"barnabas-{app.name}-") as name:
            yield Path(name)
    else:
        folder = keep / f"{app.name}-{int(time.time())}"
        folder.mkdir(parents=True)
        yield folder
