"""Fits of votes that are made once a test process, however often they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from camvo.joint import models, rare_labels, votes_fit
from camvo.joint.votes import Rows
from camvo.typing import Array

_made: dict[tuple[Any, ...], Any] = {}


@contextmanager
def remembered_votes() -> Iterator[None]:
    """Fit votes that are the same to the bit once, inside the block."""
    fit = models.fit_vote_model

    def remembered(rows: Rows, counts: Array, labels: int, temper: Array) -> Any:
        parts = ((part.dtype, part.shape, part.strides, part.tobytes()) for part in (rows, counts, temper))
        key = (labels, *parts)
        if key not in _made:
            _made[key] = fit(rows, counts, labels, temper)
        return _made[key]

    with pytest.MonkeyPatch.context() as patch:
        for module in (votes_fit, rare_labels):
            patch.setattr(module, "fit_vote_model", remembered)
        yield
