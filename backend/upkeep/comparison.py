"""Whether two states are the same sum, up to rounding."""

from __future__ import annotations

import io
import json
import math
from typing import Any

import numpy as np

from camvo.state.state import State
from camvo.student.taught_texts import TaughtText

_TOLERANCE = 1e-6
"""The largest difference that rounding can leave, absolute and relative."""


def differences(state: State, other: State) -> list[str]:
    """Name the parts in which two states differ; none if they are the same sum.

    The linear models are compared only if both states keep them, and texts that teach by their seals: one of
    the states may know n-grams that were sealed since.
    """
    mine, theirs = _parts(state), _parts(other)
    different = [name for name in mine if not _same(mine[name], theirs.get(name))]
    if not different and state.linear and other.linear:
        different = [f"linear model of {arm}" for arm in state if not _same_model(state, other, arm)]
    return different


def _parts(state: State) -> dict[str, Any]:
    with np.load(io.BytesIO(state.snapshot()), allow_pickle=False) as archive:
        parts: dict[str, Any] = json.loads(archive["header"].tobytes())
        parts |= {"pair sums": archive["pairs"].tolist(), "kept contexts": archive["contexts"].tolist()}
    del parts["linear"]
    if "texts" in parts:
        kept, owed, learnt = parts["texts"]
        parts["texts"] = [[TaughtText.from_list(text).sealed for text in kept], owed, learnt]
    return parts


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
    return bool(one == other)


def _same_model(state: State, other: State, arm: str) -> bool:
    pairs = ((state[arm].inverse.full(), other[arm].inverse.full()), (state[arm].b, other[arm].b))
    return all(np.allclose(*pair, rtol=_TOLERANCE, atol=_TOLERANCE) for pair in pairs)
