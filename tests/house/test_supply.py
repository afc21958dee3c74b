"""What `make` installs: locked with hashes, for every platform, and audited as far as anybody can be asked."""

from __future__ import annotations

import json
import re

import pytest
from tools.audit import judged, pins, rounds
from tools.lock import GROUPS, LOCKS, locked, missing


@pytest.mark.parametrize("group", GROUPS)
def test_a_lock_has_what_is_asked_for_in_the_versions_of_the_constraints(group: str) -> None:
    assert missing(group) == [], "next: pip install uv && make lock"


@pytest.mark.parametrize("group", GROUPS)
def test_every_package_of_a_lock_has_hashes_and_no_host(group: str) -> None:
    text = (LOCKS / f"{group}.txt").read_text()
    assert "://" not in text
    for name, hashes in re.findall(
        r"^([^\s=#]+)==.*\\\n((?:    --hash=sha256:[0-9a-f]{64}.*\n)*)", text, re.M
    ):
        assert hashes, name
    assert len(re.findall("--hash=", text)) >= len(locked(group))


def test_all_groups_have_the_same_version_of_a_package() -> None:
    """They are installed into one environment."""
    found: dict[str, set[str]] = {}
    for group in GROUPS:
        for name, versions in locked(group).items():
            assert found.setdefault(name, versions) == versions, name


def test_a_known_weakness_stops_a_change_and_says_what_helps() -> None:
    weak = {"name": "x", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
    outcome = judged(json.dumps({"dependencies": [weak, {"name": "y", "version": "1", "vulns": []}]}), 2)
    assert outcome.failed
    assert outcome.lines == ["audit: x 1 has CVE-1 (next: take 2, then make lock)"]


@pytest.mark.parametrize(
    "said", ["", "{}", json.dumps({"dependencies": [{"name": "x", "skip_reason": "?"}]})]
)
def test_what_nobody_could_be_asked_about_is_said_and_stops_nothing(said: str) -> None:
    outcome = judged(said, 1, "no network")
    assert not outcome.failed
    assert "NOT DONE" in outcome.lines[0]


def test_all_is_well_where_all_was_asked_about() -> None:
    outcome = judged(json.dumps({"dependencies": [{"name": "x", "version": "1", "vulns": []}]}), 1)
    assert not outcome.failed and outcome.lines == ["audit: no weakness is known of 1 packages"]


def test_a_package_of_two_versions_is_asked_about_twice() -> None:
    assert rounds(["a==1", "b==1", "b==2"]) == [["a==1", "b==1"], ["b==2"]]
    assert len(rounds(pins())[0]) > 50
