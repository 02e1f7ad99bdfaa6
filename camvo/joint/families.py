"""Families: arms that agree with one another far more than their agreement with the rest explains.

Models of one vendor err together. As independent voices they outvote better models, and a model of votes
takes their agreement for skill. If arms erred independently, the chance-corrected agreement of a pair would
be the product of two skills, c_ij = q_i q_j. The skills are fitted to log c_ij = x_i + x_j by least absolute
deviations, which a few related pairs do not bend. What a pair agrees beyond that is its excess.
"""

from __future__ import annotations

from itertools import combinations
from typing import Final

import numpy as np
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from camvo.joint.vote_rows import VoteRows
from camvo.typing import Array

_LEAST_AGREEMENT: Final = 0.02
_MOST_SKILL: Final = -0.005
"""The largest log-skill: an arm that is always right would make every excess infinite."""

_PULL: Final = 0.15
"""The cost of a log-skill's distance from the mean, beside a cost of 1 for each pair's deviation."""

_FEWEST_ROUNDS: Final = 30
CUT: Final = 0.5
"""Arms are related if their excess agreement is above this, with a standard error to spare."""


NEARLY_THE_SAME: Final = 0.9
"""Two arms without a third relative count as related only above this."""


def excess_agreement(rows: VoteRows, labels: int) -> Array:
    """How much each pair of arms agrees beyond what their agreement with the other arms explains.

    Args:
        rows: the votes; only rounds that asked all arms count.
        labels: M, the number of labels.

    Returns:
        The excess of related pairs in (½, 1], and 0 for others, shape (K, K), symmetric.
    """
    arms = rows.rows.shape[1]
    excess = np.zeros((arms, arms))
    if arms < 3 or rows.counts.sum() < _FEWEST_ROUNDS:
        return excess
    voted = rows.rows >= 0
    pairs = [(i, j) for i, j in combinations(range(arms), 2) if (voted[:, i] & voted[:, j]).any()]
    if not pairs:
        return excess
    both = np.array([rows.counts @ (voted[:, i] & voted[:, j]) for i, j in pairs])
    same = np.array([rows.counts @ (voted[:, i] & (rows.rows[:, i] == rows.rows[:, j])) for i, j in pairs])
    shared = np.maximum(both, 1.0)
    agreement = same / shared
    corrected = _corrected(agreement, labels)
    skills = np.exp(_log_skills(np.log(np.maximum(corrected, _LEAST_AGREEMENT)), pairs, arms))
    expected = np.array([skills[i] * skills[j] for i, j in pairs])
    error = np.sqrt(np.maximum(agreement * (1.0 - agreement), 1.0 / shared) / shared)
    surely = (_corrected(agreement - error, labels) - expected) / (1.0 - expected)
    found = (corrected - expected) / (1.0 - expected)
    for (i, j), certain, value in zip(pairs, surely.tolist(), found.tolist(), strict=True):
        if certain > CUT:
            excess[i, j] = excess[j, i] = min(value, 1.0)
    return _without_mere_pairs(excess)


def tempers(excess: Array) -> Array:
    """The exponent of each arm's likelihood, shape (K,): 1 over the number of voices that say the same."""
    return np.asarray(1.0 / (1.0 + excess.sum(axis=1)), dtype=np.float64)


def families(excess: Array) -> list[list[int]]:
    """The arms of each family, as positions: related arms, and their relatives in turn.

    >>> families(np.array([[0.0, 0.0, 0.8], [0.0, 0.0, 0.0], [0.8, 0.0, 0.0]]))
    [[0, 2]]
    """
    if not excess.any():
        return []
    _, family = connected_components(excess > 0.0, directed=False)
    members = (np.flatnonzero(family == number) for number in np.unique(family))
    return [positions.tolist() for positions in members if len(positions) > 1]


def _without_mere_pairs(excess: Array) -> Array:
    """Drop pairs without a third relative, unless they say nearly the same.

    Two models that are far better than the rest agree with each other as two related ones do: the rest err
    together. Counting them as one loses far more than counting two related models as two.
    """
    related = excess > 0.0
    relatives = related.sum(axis=1)
    pair = related & (relatives[:, None] == 1) & (relatives[None, :] == 1)
    return np.where(pair & (excess <= NEARLY_THE_SAME), 0.0, excess)


def _corrected(agreement: Array, labels: int) -> Array:
    """Chance-corrected agreement: 0 if two arms vote at random, 1 if they always agree."""
    return np.asarray((labels * agreement - 1.0) / max(labels - 1, 1), dtype=np.float64)


def _log_skills(target: Array, pairs: list[tuple[int, int]], arms: int) -> Array:
    """Fit x_i + x_j to ``target``, one value a pair, by least absolute deviations: a linear programme.

    Its variables are x, the deviation of each pair, the mean of x, and each distance from it.
    """
    count = len(pairs)
    size = arms + count + 1 + arms
    upper, bounds = [], []
    for number, (i, j) in enumerate(pairs):
        for sign in (1.0, -1.0):
            row = np.zeros(size)
            row[[i, j]], row[arms + number] = sign, -1.0
            upper.append(row)
            bounds.append(sign * target[number])
    for arm in range(arms):
        for sign in (1.0, -1.0):
            row = np.zeros(size)
            row[arm], row[arms + count], row[arms + count + 1 + arm] = sign, -sign, -1.0
            upper.append(row)
            bounds.append(0.0)
    costs = np.concatenate((np.zeros(arms), np.ones(count), [0.0], np.full(arms, _PULL)))
    limits = [(None, _MOST_SKILL)] * arms + [(0.0, None)] * count + [(None, None)] + [(0.0, None)] * arms
    solution = linprog(costs, A_ub=np.array(upper), b_ub=bounds, bounds=limits)
    return np.asarray(solution.x[:arms], dtype=np.float64)
