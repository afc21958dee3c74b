"""franz-go's own tests of consumers, producers, admin, groups and transactions against our node.  Needs Go."""

from __future__ import annotations

import shutil

import pytest
from tests.suites.declared import suite
from tests.suites.run import SuiteUnavailableError, run

pytestmark = [
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.skipif(not shutil.which("go"), reason="franz-go's suite needs Go"),
]


def test_franz_gos_own_suite_passes(capsys: pytest.CaptureFixture[str]) -> None:
    try:
        result = run(suite("franz-go"), nodes=1)
    except SuiteUnavailableError as error:
        pytest.skip(f"franz-go's suite could not be fetched or built: {error}")
    with capsys.disabled():
        print(f"\nfranz-go's own suite: {result.passed} passed, {result.skipped} skipped")
    assert (result.failed, result.failures) == (0, [])
    assert result.passed >= 50
    assert result.skipped == 0
