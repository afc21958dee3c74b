"""Answers of a broker that should name what was asked about, and may not: a hostile one leaves it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from barnabas.errors import WireError

__all__ = ["first_of"]

T = TypeVar("T")


def first_of(items: Sequence[T], what: str) -> T:
    """`first_of(response.groups, "group g")`: what the answer says first.  Raises WireError if that is nothing."""
    if not items:
        raise WireError(f"the broker's answer says nothing of {what}")
    return items[0]
