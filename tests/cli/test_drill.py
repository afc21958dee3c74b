"""Drills: that each is there, that a proof can fail, and the shortest one as a user runs it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from barnabas.cli.drill import stories
from barnabas.cli.drill.drill import DRILLS, story_of
from barnabas.cli.drill.stage import DrillError, Stage
from barnabas.cli.drill.stories.brokers import least_copies
from barnabas.cli.drill.traffic import Proof
from barnabas.cli.main import main

FINE = Proof(100, 0, 0, 0.1, 10, 0, 0.5)


def silent(kind: str, text: str) -> None: ...


def test_each_drill_has_a_story_and_each_story_is_listed() -> None:
    folder = Path(str(stories.__file__)).parent
    paths = [path.relative_to(folder) for path in folder.rglob("*.py") if path.stem != "__init__"]
    files = {".".join(path.with_suffix("").parts) for path in paths}
    assert files == {story_of(name) for name in DRILLS}
    assert all(callable(import_module(f"{stories.__name__}.{name}").play) for name in files)


def test_the_page_of_drills_names_each() -> None:
    page = (Path(__file__).parents[2] / "docs" / "drills.md").read_text()
    assert [f"| `{name}` | {about} |" for name, about in DRILLS.items()] == [
        line for line in page.splitlines() if line.startswith("| `")
    ]


@pytest.mark.parametrize(
    "proof",
    [
        FINE._replace(lost=1),
        FINE._replace(twice=1),
        FINE._replace(topics_lost=1),
        FINE._replace(acknowledged=0),
    ],
)
def test_what_is_lost_or_twice_or_never_sent_is_no_proof(proof: Proof) -> None:
    assert FINE.holds and not proof.holds


@pytest.mark.parametrize(
    ("held", "wanted", "least"),
    [
        ([5, 5, 0], 10, 3),
        ([4, 3, 3], 10, 0),
        ([6, 3, 1], 10, 2),
        ([2, 2], 8, 4),
        ([0, 10], 10, 5),
        ([7], 9, 2),
    ],
)
def test_the_least_number_of_copies_is_what_evens_brokers_out(
    held: list[int], wanted: int, least: int
) -> None:
    assert least_copies(held, wanted) == least


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with Stage(silent) as found:
        found.alone(1)
        found.brokers(11)
        yield found


def test_a_claim_that_does_not_come_true_ends_the_drill(stage: Stage) -> None:
    with pytest.raises(DrillError, match=r"voters \[1, 2\]"):
        stage.voters_are(1, 2, within=0.3)
    with pytest.raises(DrillError, match="ended with 4, not 0"):
        stage.type("topics describe no-such-topic")
    with pytest.raises(DrillError, match="does not say 'no such words'"):
        stage.type("topics list", shows="no such words")


def test_topics_rest_while_placement_is_looked_at_and_go_on_afterwards(stage: Stage) -> None:
    traffic = stage.traffic
    assert traffic is not None
    with traffic.no_new_topics():
        made = traffic.made
        stage.flowing(metadata=False)
        assert traffic.made == made
    stage.flowing()


def test_a_record_that_was_acknowledged_and_is_not_there_is_found(stage: Stage) -> None:
    stage.flowing()
    traffic = stage.traffic
    assert traffic is not None
    traffic._acknowledged.append(b"never sent")
    traffic._made.append("never-made")
    proof = stage.prove()
    assert (proof.lost, proof.twice, proof.topics_lost) == (1, 0, 1)
    assert proof.acknowledged > 20


def test_a_drill_is_run_and_tells_what_came_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "run", "bootstrap", "--json"]) == 0
    (result,) = json.loads(capsys.readouterr().out)["drill"]
    assert (result["name"], result["result"], result["lost"]) == ("bootstrap", "proven", 0)


@pytest.mark.parametrize(
    "sign",
    [
        signal.SIGTERM,
        *(pytest.param(sign, marks=pytest.mark.slow) for sign in (signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_a_drill_that_is_ended_takes_its_nodes_and_files_with_it(
    sign: signal.Signals, tmp_path: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "barnabas", "drill", "run", "bootstrap"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process:
        assert any("records flow" in line for line in process.stdout)
        (directory,) = tmp_path.glob("barnabas-drill*")
        process.send_signal(sign)
        process.stdout.read()
    assert process.returncode == 128 + sign
    assert not list(tmp_path.iterdir())
    assert not [one for one in Path("/proc").glob("[0-9]*") if _works_in(one, directory)]


def _works_in(process: Path, directory: Path) -> bool:
    try:
        return (process / "cwd").readlink().is_relative_to(directory)
    except OSError:  # it has ended
        return False


@pytest.mark.slow
@pytest.mark.parametrize("name", DRILLS)
def test_each_drill_is_proven(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "run", name]) == 0, capsys.readouterr().out


def test_a_drill_that_is_not_there_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "run", "move-quorm"]) == 2
    assert "did you mean move-quorum?" in capsys.readouterr().err
