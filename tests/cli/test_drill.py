"""Drills: that each is there, that a proof can fail, and the shortest one as a user runs it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from barnabas.cli.drill import stories
from barnabas.cli.drill.drill import DRILLS, story_of
from barnabas.cli.drill.stage import DrillError, Stage
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


@pytest.mark.slow
@pytest.mark.parametrize("name", DRILLS)
def test_each_drill_is_proven(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "run", name]) == 0, capsys.readouterr().out


def test_a_drill_that_is_not_there_is_told_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "run", "move-quorm"]) == 2
    assert "did you mean move-quorum?" in capsys.readouterr().err
