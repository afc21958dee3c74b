"""The model of docs/spec fits its configurations, and every scenario of docs/scenarios.md is carried by a test."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools import spec

from barnabas.config import SETTINGS

ROOT = Path(__file__).parents[2]
MODULE = (spec.SPEC / "Membership.tla").read_text()
README = (spec.SPEC / "README.md").read_text()
GUARDS = {"GuardOwnEpoch", "GuardOneChange", "GuardOneKey", "GuardOutsider"}
CONSTANTS = {"Nodes", "Initial", "MaxEpoch", "MaxLog", "Manual", "Target", "Dead"} | GUARDS
ROW = re.compile(r"^\| (K\d{3}) \| (.+) \| (.*) \| (.+) \|$", re.MULTILINE)


def settings_of(model: str) -> dict[str, str]:
    text = (spec.SPEC / f"{model}.cfg").read_text()
    return dict(re.findall(r"^    (\w+) = ([^ ].*)$", text, re.MULTILINE))


def promises_of(model: str) -> list[str]:
    text = (spec.SPEC / f"{model}.cfg").read_text()
    return [
        name for line in re.findall(r"^(?:INVARIANTS|PROPERTY) (.+)$", text, re.M) for name in line.split()
    ]


# ------------------------------------------------------------------ the model


def test_every_model_is_run_and_told_about() -> None:
    assert {path.stem for path in spec.SPEC.glob("*.cfg")} == set(spec.MODELS)
    assert [name for name in spec.MODELS if f"[{name}]({name}.cfg)" not in README] == []
    assert "spec:" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("model", spec.MODELS)
def test_a_model_sets_every_constant_and_checks_promises_that_are_defined(model: str) -> None:
    settings = settings_of(model)
    assert {name for name in settings if name[0].isupper()} == CONSTANTS
    for name in promises_of(model):
        assert re.search(rf"^{name} ==", MODULE, re.MULTILINE), name
        assert name in README or name in ("TypeOK", "TargetNeverReached"), f"{name} is not explained"


def test_each_guard_is_shown_to_be_needed_by_one_known_bad_model() -> None:
    missing = {
        model: [name for name, value in settings_of(model).items() if value == "FALSE" and name in GUARDS]
        for model in spec.MODELS
    }
    assert {model for model, guards in missing.items() if guards} == {
        model for model in spec.MODELS if model.startswith("Bad")
    }
    assert sorted(guard for guards in missing.values() for guard in guards) == sorted(GUARDS)
    for model, broken in spec.MODELS.items():
        assert broken is None or broken in promises_of(model), model


def test_the_files_that_the_model_speaks_of_exist() -> None:
    named = set(re.findall(r"raft/([\w/]+\.py)", MODULE))
    assert {
        "core.py",
        "election.py",
        "following.py",
        "leadership.py",
        "membership/target.py",
        "membership/steps.py",
    } <= named
    for name in named:
        assert (ROOT / "src" / "barnabas" / "raft" / name).exists(), name
    for name in ("_append_voters", "may_stand", "next_step"):
        assert name in MODULE
        assert any(f"def {name}(" in path.read_text() for path in (ROOT / "src/barnabas/raft").rglob("*.py"))


def test_without_java_it_says_what_to_bring(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert spec.main([]) == 2
    said = capsys.readouterr().err
    assert "Java" in said and "TLA2TOOLS=" in said
    assert spec.main(["NoSuch"]) == 1


def _tlc_is_here() -> bool:
    """Whether TLC can run without fetching anything."""
    jars = list((ROOT / "build" / "spec").glob("*.jar"))
    return bool(jars) and shutil.which("java") is not None


@pytest.mark.skipif(not _tlc_is_here(), reason="`make spec` has not fetched TLC here")
def test_the_smallest_known_bad_model_is_found_out() -> None:
    result = spec.check("BadOneKey", spec.tlc())
    assert result.broken == "CommittedSurvives", result.output


# ------------------------------------------------------------------ scenarios


def scenarios() -> list[tuple[str, str, str, str]]:
    return ROW.findall((ROOT / "docs" / "scenarios.md").read_text())


def test_every_scenario_has_one_row() -> None:
    numbers = [row[0] for row in scenarios()]
    assert len(numbers) == 151 and numbers == sorted(set(numbers))
    assert (numbers[0], numbers[-1]) == ("K001", "K201")


def test_what_a_row_names_carries_its_number() -> None:
    for number, _, _, where in scenarios():
        names = re.findall(r"`([^`]+)`", where)
        assert names, number
        for name in names:
            assert re.search(rf"\b{number}\b", (ROOT / "tests" / name).read_text()), f"{number}: {name}"


def test_every_number_in_a_test_has_its_row_or_was_merged_into_another() -> None:
    known = {row[0] for row in scenarios()}
    found = {
        number
        for folder in ("raft", "stories")
        for path in (ROOT / "tests" / folder).rglob("*.*")
        if path.suffix in (".py", ".txt")
        for number in re.findall(r"\bK\d{3}\b", path.read_text())
    }
    assert found - known <= {"K016", "K060"}, "not in docs/scenarios.md"


# ------------------------------------------------------------------ the operator's page


def test_the_settings_that_the_page_of_the_quorum_names_exist() -> None:
    page = (ROOT / "docs" / "quorum.md").read_text()
    named = set(re.findall(r"`(controller\.[a-z.]+)`", page))
    assert named and named <= set(SETTINGS)
