"""Ridge regression of labels on sparse features, by conjugate gradients."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from camvo.typing import Array

_STEPS: Final = 25
_CLOSE: Final = 0.01
"""The relative residual at which to stop. More digits do not change which label comes first."""


def fit_ridge(design: Any, targets: Array, ridge: float, start: Array | None = None) -> Array:
    """Minimise ‖design · W − targets‖² + ridge · ‖W‖² as far as 25 steps go.

    The columns are independent problems with one matrix, so each has step lengths of its own.

    Args:
        design: a sparse matrix, shape (n, F).
        targets: shape (n, M).
        ridge: > 0.
        start: where the search starts, shape (F, M); a solution of nearly the same problem saves steps.

    Returns:
        W, shape (F, M).
    """
    transposed = design.T.tocsr()
    residual = np.asarray(transposed @ targets)
    goal = _CLOSE**2 * (residual**2).sum(axis=0)
    weights = np.zeros_like(residual) if start is None else start.copy()
    if start is not None:
        residual -= transposed @ (design @ start) + ridge * start
    direction, size = residual.copy(), (residual**2).sum(axis=0)
    for _ in range(_STEPS):
        if np.all(size <= goal):
            break
        image = transposed @ (design @ direction) + ridge * direction
        curvature = (direction * image).sum(axis=0)
        step = np.divide(size, curvature, out=np.zeros_like(size), where=curvature > 0.0)
        weights += step * direction
        residual -= step * image
        following = (residual**2).sum(axis=0)
        direction = residual + direction * np.divide(
            following, size, out=np.zeros_like(size), where=size > 0.0
        )
        size = following
    return np.asarray(weights)
