"""What holds for all replays."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from remembered_votes import remembered_votes


@pytest.fixture(scope="module", autouse=True)
def fits_once() -> Iterator[None]:
    """Fit the same votes once: most replays of these tests are of the same few tables."""
    with remembered_votes():
        yield
