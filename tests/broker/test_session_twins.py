"""A session that looks only at what moved answers as one that looks at everything, whatever happens."""

from __future__ import annotations

import pytest
from tests.broker.fetch_lives import Life, live
from tests.broker.harness import PAGE_CACHE

from barnabas.broker.sessions import FetchPosition, FetchSession


class LooksAtAll(FetchSession):
    """Looks at all its positions each time somebody asks which moved."""

    __slots__ = ()

    @property
    def marked(self) -> list[FetchPosition]:
        self.note_all()
        return super().marked


@pytest.mark.parametrize("mode", ["1", PAGE_CACHE])
@pytest.mark.parametrize("seed", range(25))
def test_it_answers_as_if_it_looked_at_everything(seed: int, mode: str) -> None:
    live(seed, [Life(mode), Life(mode, session=LooksAtAll)])
