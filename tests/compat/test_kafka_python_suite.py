"""kafka-python's own integration suite against our node: what fails is known, and why is written down.

The reasons stand in docs/compatibility.md.  A name that fails and is not declared is a regression; a declared name
that passes is to be taken out.
"""

from __future__ import annotations

import pytest
from tests.suites.declared import suite
from tests.suites.run import SuiteUnavailableError, run

pytestmark = [pytest.mark.compat, pytest.mark.slow]


def test_what_fails_of_kafka_pythons_own_suite_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    declared = suite("kafka-python")
    try:
        result = run(declared, nodes=1)
    except SuiteUnavailableError as error:
        pytest.skip(f"kafka-python's suite could not be fetched: {error}")
    with capsys.disabled():
        print(f"\nkafka-python's own suite: {result.passed} passed, {result.failed} failed")
    assert set(result.failures) == set(declared.known)
    assert result.passed >= 50
