"""Applications of Apache Kafka for half a minute through kills; `make suites ARGS="apps"` runs them longer."""

from __future__ import annotations

import pytest
from tests.suites.apps.declared import app
from tests.suites.apps.java import JavaUnavailableError
from tests.suites.apps.run import run

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.mark.parametrize("name", ["copier", "streams", "connect-distributed"])
def test_every_number_goes_through_an_application_exactly_once(name: str) -> None:
    try:
        result = run(app(name), nodes=3, kills_every=12, minutes=0.5, rate=200, keep=None)
    except JavaUnavailableError as error:
        pytest.skip(f"needs Java 17 and Maven: {error}")
    assert result.kills > 1
    assert (result.lost, result.twice, result.wrong) == (0, 0, [])
