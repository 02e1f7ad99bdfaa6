"""The models and the correlations of the paper's sensitivity study (Appendix H)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from camvo.replays.synthetic import SyntheticModel
from camvo.typing import Array

PAPER_MODELS: Final[Mapping[str, SyntheticModel]] = MappingProxyType(
    {
        "llama-3.1-8b": SyntheticModel(0.6801, 0.05),
        "o1-mini": SyntheticModel(0.8482, 1.1),
        "llama-3.3-70b": SyntheticModel(0.8170, 0.59),
        "gpt-4o": SyntheticModel(0.8358, 2.5),
        "claude-3-7-sonnet": SyntheticModel(0.8565, 3.0),
        "o3-mini": SyntheticModel(0.8592, 1.1),
        "claude-3-5-haiku": SyntheticModel(0.6409, 0.8),
    }
)
"""The paper's models in the order of Appendix H: accuracy on MMLU, price in $ per million input tokens."""

_HETEROGENEOUS = (
    (1.000, 0.445, 0.147, 0.423, 0.211, 0.306, 0.320),
    (0.445, 1.000, 0.373, 0.448, 0.242, 0.420, 0.317),
    (0.147, 0.373, 1.000, 0.265, 0.172, 0.118, 0.142),
    (0.423, 0.448, 0.265, 1.000, 0.301, 0.436, 0.325),
    (0.211, 0.242, 0.172, 0.301, 1.000, 0.158, 0.180),
    (0.306, 0.420, 0.118, 0.436, 0.158, 1.000, 0.388),
    (0.320, 0.317, 0.142, 0.325, 0.180, 0.388, 1.000),
)


def equal_correlation(gamma: float, models: int = len(PAPER_MODELS)) -> Array:
    """Return the correlations of the first set-up of Appendix H: γ between any two models.

    Args:
        gamma: γ, in [−1, 1].
        models: K, the number of models.

    Returns:
        The correlation matrix, shape (K, K).
    """
    return np.where(np.eye(models, dtype=np.bool_), 1.0, gamma)


def heterogeneous_correlation() -> Array:
    """Return the correlations of the second set-up of Appendix H, for :data:`PAPER_MODELS`; shape (7, 7)."""
    return np.array(_HETEROGENEOUS)
