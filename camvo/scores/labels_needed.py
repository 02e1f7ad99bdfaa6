"""How many more blind labels a certificate needs, if they turn out like those so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from camvo.errors import InvalidParameterError
from camvo.scores.guarantee import Guarantee
from camvo.typing import Array

_PRIOR = 4.0
"""For how many labels the score itself counts in what is expected of each cell of the grid."""


def labels_to_certify(
    audits: Sequence[tuple[float, float]],
    scores: Sequence[tuple[float, float]],
    target: float,
    *,
    most: int,
    right_at: float = 0.0,
) -> int | None:
    """Return the fewest further blind labels that are expected to certify some score.

    Further labels are expected to have scores like all labels, and to be right as often as the blind labels
    so far with such a score, with the score itself counting for four labels.

    Args:
        audits: score and reward of the blind labels that count, each in [0, 1].
        scores: (score, number of labels) over all labels.
        target: the share that must be right, in (0, 1).
        most: how many labels to consider at most.
        right_at: only certify scores from this one on.

    Returns:
        The number, 0 if the labels certify already; ``None`` if ``most`` labels are not expected to suffice.

    Raises:
        InvalidParameterError: there is no label at all.

    >>> labels_to_certify([(0.99, 1.0)] * 20, [(0.99, 500)], 0.9, most=500)
    24
    """
    guarantee = Guarantee(target=target)
    guarantee.update(audits)
    so_far = guarantee.counts.copy()
    expected = _expected(guarantee, scores)

    def suffice(more: int) -> bool:
        guarantee.counts = so_far + more * expected
        threshold = guarantee.threshold()
        return threshold is not None and threshold >= right_at

    if suffice(0):
        return 0
    enough = next((more for more in _growing(most) if suffice(more)), None)
    if enough is None:
        return None
    too_few = max((more for more in _growing(most) if more < enough), default=0)
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if suffice(middle) else (middle, enough)
    return enough


def _expected(guarantee: Guarantee, scores: Sequence[tuple[float, float]]) -> Array:
    """The (wrong, right) of one further label by cell of the grid, shape (G + 1, 2)."""
    mass, score_mass = np.zeros(len(guarantee.grid) + 1), np.zeros(len(guarantee.grid) + 1)
    for score, number in scores:
        cell = int(np.searchsorted(guarantee.grid, score, side="right"))
        mass[cell] += number
        score_mass[cell] += number * score
    if mass.sum() <= 0.0:
        raise InvalidParameterError("there is no label to certify")
    prior = np.divide(score_mass, mass, out=np.zeros_like(mass), where=mass > 0.0)
    right = (guarantee.counts[:, 1] + _PRIOR * prior) / (guarantee.counts.sum(axis=1) + _PRIOR)
    share = mass / mass.sum()
    return np.column_stack([share * (1.0 - right), share * right])


def _growing(most: int) -> list[int]:
    """1, 2, 3, 5, 7, 11, …: about a tenth more each time beyond ten, up to ``most``."""
    numbers, number = [], 1
    while number < most:
        numbers.append(number)
        number += 1 + number // 4
    return [*numbers, most] if most > 0 else []
