"""Durations are counted by bucket, at once or when somebody looks."""

from __future__ import annotations

import random

import pytest

from barnabas.server.observe.metrics import BOUNDS, Metrics


def test_what_is_noted_counts_like_what_is_observed() -> None:
    draw, metrics = random.Random(7), Metrics()
    observed, noted = metrics.histogram("a"), metrics.histogram("b")
    for _ in range(500):
        seconds = draw.choice([*BOUNDS, draw.uniform(0.0, 20.0)])
        observed.observe(seconds)
        noted.note(seconds)
        if draw.random() < 0.05:
            metrics.settle()
        if draw.random() < 0.05:
            assert noted.count == observed.count
    assert noted.counts == observed.counts
    assert noted.total == pytest.approx(observed.total)  # (added in another order)
    assert noted.highest == observed.highest


def test_a_histogram_keeps_nothing_that_was_counted() -> None:
    metrics = Metrics()
    noted = metrics.histogram("a")
    for _ in range(3):
        noted.note(0.2)
        metrics.settle()
    assert (noted.count, noted.highest) == (3, 0.2)
    metrics.settle()
    assert noted.count == 3
