"""Vote rows: the votes on one question as numbers, the same for every fit.

A row has one number for each of K arms: the number of the label that it voted for, SILENT if it was asked and
gave no vote, or UNASKED. With two labels the number is the label's position among the sorted labels, with
ordered ones its position on the scale. Other labels are numbered in the order in which a row first names
them, because the model of votes treats them all alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse.csgraph import connected_components

from camvo.numerics.small import EPSILON, TIE
from camvo.state.exploration import UNASKED, VotePattern
from camvo.twins import asking_each
from camvo.typing import Array

Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class VoteRows:
    """Distinct vote rows and how many rounds had each.

    Attributes:
        rows: shape (P, K).
        counts: the number of rounds that asked all models independently of the votes, but for those that a
            draw spared, shape (P,).
        partial: the number of other rounds, shape (P,).
    """

    rows: Rows
    counts: Array
    partial: Array

    @classmethod
    def of(
        cls,
        patterns: Mapping[VotePattern, int],
        arms: Sequence[str],
        labels: Sequence[str],
        *,
        ordered: bool = False,
    ) -> VoteRows:
        """Tabulate vote patterns (pattern → its number of rounds) of K arms on M labels.

        A round without one of the models in its pool counts as partial. With two labels a round counts only
        if its pattern names them; so it does with ordered labels, whose numbers are their positions in
        ``labels``.
        """
        table: dict[tuple[int, ...], list[float]] = {}
        asks_each = asking_each(arms)
        for pattern, count in patterns.items():
            row = pattern.positions(arms, labels) if ordered else pattern.among(arms, labels)
            if count <= 0 or row is None:
                continue
            everyone = pattern.everyone and asks_each(pattern.arms)
            table.setdefault(row, [0.0, 0.0])[not everyone] += count
        rows = sorted(table)
        numbers = np.array([table[row] for row in rows], dtype=np.float64).reshape(-1, 2)
        return cls(np.array(rows, dtype=np.int64).reshape(-1, len(arms)), numbers[:, 0], numbers[:, 1])


def answering(rows: VoteRows) -> Array:
    """How often each arm votes if it is asked, shape (K,); exactly 1 for an arm that always did."""
    times = rows.counts + rows.partial
    voted, asked = (times @ (rows.rows >= 0), times @ (rows.rows != UNASKED))
    return np.asarray((voted + 1.0) / (asked + 1.0), dtype=np.float64)


def distinct(rows: Rows) -> tuple[Rows, Array]:
    """Each distinct row, shape (P, K), and how often it occurs in ``rows``, shape (P,)."""
    unique, counts = np.unique(rows, axis=0, return_counts=True)
    return unique, counts.astype(np.float64)


def row_of(
    votes: Mapping[str, str | None], arms: Sequence[str], labels: Sequence[str]
) -> tuple[tuple[int, ...], list[str]]:
    """One round's votes as a row, UNASKED for arms without a vote, and the label of each number in it.

    Votes for labels outside the label set count as none.
    """
    numbered = sorted(labels) if len(labels) == 2 else []
    row: list[int] = []
    for arm in arms:
        vote = votes.get(arm)
        if vote is None or vote not in labels:
            row.append(UNASKED)
            continue
        if vote not in numbered:
            numbered.append(vote)
        row.append(numbered.index(vote))
    return tuple(row), numbered


def renumber(rows: Rows) -> Rows:
    """Number the labels of each row, shape (P, K), in the order of their first appearance."""
    out = rows.copy()
    number = np.full((len(rows), int(rows.max(initial=0)) + 1), -1, dtype=np.int64)
    following = np.zeros(len(rows), dtype=np.int64)
    for position in range(rows.shape[1]):
        named = np.flatnonzero(rows[:, position] >= 0)
        label = rows[named, position]
        new = named[number[named, label] < 0]
        number[new, rows[new, position]] = following[new]
        following[new] += 1
        out[named, position] = number[named, label]
    return out


def agreement(rows: Rows, counts: Array) -> Array:
    """How often each pair of arms agrees where both vote, shape (K, K), in rounds with these counts."""
    arms = rows.shape[1]
    same = np.eye(arms)
    for i, j in combinations(range(arms), 2):
        both = counts * ((rows[:, i] >= 0) & (rows[:, j] >= 0))
        same[i, j] = same[j, i] = both @ (rows[:, i] == rows[:, j]) / max(float(both.sum()), 1.0)
    return same


_IN_GROUP: Final = 0.5
"""The least part of an arm in a group, relative to that of the arm with the largest one."""


def closest_group(beyond: Array) -> tuple[list[int], float]:
    """The arms that agree most beyond what is expected, and by how much a pair of them does on average.

    These are the arms with a large part in the leading eigenvector of ``beyond``, shape (K, K). If its parts
    cancel out, as those of two arms do that agree less than is expected, there is no group.
    """
    beyond = beyond - np.diag(np.diag(beyond))
    values, vectors = np.linalg.eigh(beyond)
    total = float(vectors[:, -1].sum())
    if abs(total) <= TIE:
        return [], 0.0
    part = vectors[:, -1] * np.sign(total)
    group = np.flatnonzero(part > _IN_GROUP * part.max()).tolist()
    return group, float(values[-1]) / max(len(group) - 1, 1)


def others_agree(same: Array, group: Sequence[int], labels: int) -> bool:
    """Whether the arms outside a group agree enough to contradict it, by how often each pair does, (K, K)."""
    others = [arm for arm in range(len(same)) if arm not in group]
    enough = _ENOUGH_OF_TWO if labels == 2 else _ENOUGH
    return len(others) > 1 and bool(_agreement_among(_corrected(same, labels), others) > enough)


_LEAST_AGREEMENT: Final = 0.02
_MOST_SKILL: Final = -0.005
"""The largest log-skill: an arm that is always right would make every excess infinite."""

_PULL: Final = 0.15
"""The cost of a log-skill's distance from the mean, relative to a cost of 1 for each pair's deviation."""

_FEWEST_ROUNDS: Final = 30
_CUT: Final = 0.5
"""Arms are related if their excess agreement is above this, with a standard error to spare."""


_ENOUGH: Final = 0.36
_ENOUGH_OF_TWO: Final = 0.26
"""Arms are a family only if the others agree among themselves more than this, with more labels and with two.
Weak models agree less, and err together on hard items, so they say nothing about arms that contradict them.
"""

_MOST_EXPECTED: Final = 0.99
"""The most that two arms are expected to agree."""

_NEARLY_THE_SAME: Final = 0.9
"""Arms with more excess agreement than this say nearly the same."""

_BETTER, _BETTER_OF_TWO = 1.13, 1.3
_BETTER_OF_PAIR, _BETTER_OF_PAIR_OF_TWO = 0.98, 1.0
"""Arms are no family if they agree with the others so many times as much as the others among themselves.

Good arms do, because they are right more often, though with two labels errors in common hide it. Two arms
need clearer evidence than more, because two good ones agree with each other as much as two related ones do.
"""

_FEWEST_WITNESSES: Final = 3
"""The fewest other arms by which two arms are related, unless they say nearly the same."""


def excess_agreement(rows: VoteRows, labels: int) -> Array:
    """How much each pair of arms agrees beyond what their agreement with the other arms explains, (K, K).

    It is in (½, 1] for related pairs and 0 for others. Only rounds that asked all arms count.
    """
    return confirmed_excess(possible_excess(rows, labels), rows, labels)[0]


def possible_excess(rows: VoteRows, labels: int) -> Array:
    """The excess agreement with the families that the other arms do not confirm, shape (K, K).

    These may be related arms, or good ones that agree because they are right.
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
        if certain > _CUT:
            excess[i, j] = excess[j, i] = min(value, 1.0)
    return excess


def tempers(excess: Array) -> Array:
    """The exponent of each arm's likelihood, shape (K,): 1 over the number of voices that say the same."""
    return np.asarray(1.0 / (1.0 + excess.sum(axis=1)), dtype=np.float64)


def families(excess: Array) -> list[list[int]]:
    """The arms of each family, as positions: related arms, and their relatives in turn."""
    if not excess.any():
        return []
    _, family = connected_components(excess > 0.0, directed=False)
    members = (np.flatnonzero(family == number) for number in np.unique(family))
    return [positions.tolist() for positions in members if len(positions) > 1]


_RESAMPLES: Final = 60
_CERTAINTY: Final = 0.1
"""The quantile, over resampled rounds, at which a family's excess agreement must be above the cut."""

_EVEN: Final = 0.5
"""Two arms are no family unless more than this share of the resamples says so, and three unless a tenth does.
They are in doubt unless nine of ten agree, but of two arms on more than two labels more than half decide."""

_LEAST_WITH: Final = 0.25
"""A family that agrees with the others less than this part of their agreement among themselves is in doubt:
either it or the others say nothing about the label, and nothing tells which."""

_PERHAPS_ENOUGH: Final = 0.25
"""If two labels' other arms probably agree more than this, but not certainly enough, nothing tells."""


def confirmed_excess(excess: Array, rows: VoteRows, labels: int) -> tuple[Array, tuple[int, ...]]:
    """Drop the families whose agreement may be that of good models, shape (K, K).

    Good models agree because they are right. Then the other arms agree with each of them more than among
    themselves: if errors are independent, c_ij = c_ik c_jl / c_kl for all others k and l, where c is the
    corrected agreement. Copies agree with the others no more than the others among themselves. Where the
    others say too little to tell which, the arms are no family: to count three good models as one loses
    far more than to count three copies as three.

    Also return a dropped family of which nothing tells at all whether it is one, if any.
    """
    related = excess > 0.0
    unclear: tuple[int, ...] = ()
    if not related.any():
        return excess, unclear
    resampled, enough = _resampled_agreement(rows, labels), _ENOUGH_OF_TWO if labels == 2 else _ENOUGH
    kept = np.zeros_like(excess)
    for family in families(excess):
        others = [arm for arm in range(len(excess)) if not related[family, arm].any()]
        apart = _apart_from(others, family, excess, resampled, labels) if len(others) > 1 else 0.0
        pair = len(family) == 2
        if apart <= (_EVEN if pair else _CERTAINTY):
            continue
        beyond = np.mean(
            [_excess_by_others(resampled, i, j, others) for i, j in combinations(family, 2) if related[i, j]],
            axis=0,
        )
        among_others = _agreement_among(resampled, others)
        if np.quantile(beyond, _CERTAINTY) <= _CUT:
            continue
        clearly = np.quantile(among_others, _CERTAINTY) > enough
        if clearly and _agreement_with(resampled, family, others) < _LEAST_WITH * np.median(among_others):
            unclear = tuple(family)
            continue
        if clearly and apart > (_EVEN if pair and labels > 2 else 1.0 - _CERTAINTY):
            among = np.ix_(family, family)
            kept[among] = np.maximum(excess[among], np.median(beyond)) * (1.0 - np.eye(len(family)))
        elif clearly or (labels == 2 and np.median(among_others) > _PERHAPS_ENOUGH):
            unclear = tuple(family)
    return kept, unclear


def _apart_from(others: list[int], family: list[int], excess: Array, resampled: Array, labels: int) -> float:
    """The share of resamples in which a family agrees with the others no more than copies do."""
    pairs = excess[np.ix_(family, family)]
    if np.mean(pairs[pairs > 0.0]) > _NEARLY_THE_SAME:
        return 1.0
    most = _BETTER_OF_TWO if labels == 2 else _BETTER
    if len(family) == 2:
        if len(others) < _FEWEST_WITNESSES:
            return 0.0
        most = _BETTER_OF_PAIR_OF_TWO if labels == 2 else _BETTER_OF_PAIR
    first, second = np.array([*combinations(others, 2)]).T
    among = resampled[:, first, second].mean(axis=1)
    with_them = resampled[:, family][:, :, others].mean(axis=(1, 2))
    return float(np.mean(with_them / np.maximum(among, EPSILON) < most))


def _agreement_among(agreement: Array, arms: list[int]) -> Array:
    """How much some arms agree with one another, shape (…,); pairs that agree more weigh more."""
    first, second = np.array([*combinations(arms, 2)]).T
    pairs = np.maximum(agreement[..., first, second], 0.0)
    return np.asarray((pairs**2).sum(axis=-1) / np.maximum(pairs.sum(axis=-1), EPSILON), dtype=np.float64)


def _agreement_with(agreement: Array, family: list[int], others: list[int]) -> float:
    """How much a family agrees with the others: the median over resamples."""
    return float(np.median(agreement[:, family][:, :, others].mean(axis=(1, 2))))


def _excess_by_others(agreement: Array, i: int, j: int, others: list[int]) -> Array:
    """The excess agreement of two arms by the agreement with and among the others, shape (B,).

    Numerators and denominators are summed over the pairs of others, so those that say little weigh little.
    """
    first, second, among = (
        agreement[:, i, others],
        agreement[:, j, others],
        agreement[:, others][:, :, others],
    )
    apart = ~np.eye(len(others), dtype=np.bool_)
    with_them = (first[:, :, None] * second[:, None, :])[:, apart].sum(axis=1)
    expected = np.where(with_them > 0.0, with_them, 0.0) / np.maximum(among[:, apart].sum(axis=1), EPSILON)
    expected = np.clip(expected, 0.0, _MOST_EXPECTED)
    return np.asarray((agreement[:, i, j] - expected) / (1.0 - expected), dtype=np.float64)


def _resampled_agreement(rows: VoteRows, labels: int) -> Array:
    """The corrected agreement of all pairs in resampled rounds that asked all arms, shape (B, K, K)."""
    rng, arms = np.random.default_rng(0), rows.rows.shape[1]
    counts = rng.poisson(rows.counts, size=(_RESAMPLES, len(rows.counts))).astype(np.float64)
    out = np.ones((_RESAMPLES, arms, arms))
    for i, j in combinations(range(arms), 2):
        both = (rows.rows[:, i] >= 0) & (rows.rows[:, j] >= 0)
        same = counts @ (both & (rows.rows[:, i] == rows.rows[:, j])) / np.maximum(counts @ both, 1.0)
        out[:, i, j] = out[:, j, i] = _corrected(same, labels)
    return out


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
