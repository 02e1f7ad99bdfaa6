"""The design matrix of the corrected vote: what speaks for each candidate label of each round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from camvo.numerics.conditional_logit import ChoiceSets
from camvo.state.kept_rounds import KeptRound
from camvo.typing import Array

SCALE, NONE, ALONE = 0, 1, 2
"""The columns of the shared features (see :class:`camvo.weights.corrected_vote.CorrectedVote`)."""

SHARED: Final = 3
"""How many shared features there are. The features of arms follow."""


def vote_choices(rows: Sequence[KeptRound], arms: Sequence[str], labels: Sequence[str]) -> ChoiceSets:
    """Build the choice sets of n rounds for the conditional logit.

    The candidates of a round are the labels that got a vote and, if some labels got none, "none of them".

    Args:
        rows: rounds with a human label, each with at least one vote for one of ``labels``.
        arms: the K arms.
        labels: the M labels, sorted.

    Returns:
        The choice sets, with features in this order: 3 shared ones and K for arms.
    """
    asked = [len({vote.arm for vote in row.votes} & set(arms)) for row in rows]
    (round_number, arm, label), weights = _votes(rows, arms, labels)
    # A candidate has the code round · (M + 1) + label, in which the label "none of them" is M.
    none, width = len(labels), len(labels) + 1
    backed = np.unique(round_number * width + label)
    incomplete = np.flatnonzero(np.bincount(backed // width) < none)
    codes = np.sort(np.concatenate((backed, incomplete * width + none)))
    round_of, named = codes // width, codes % width
    truth = np.array([labels.index(str(row.label)) for row in rows], dtype=np.int64)
    others_right = ~np.isin(np.arange(len(rows)) * width + truth, backed)
    chosen = np.where(named == none, others_right[round_of], named == truth[round_of])

    candidate = np.searchsorted(codes, round_number * width + label)
    weight = np.bincount(candidate, weights, len(codes))
    absent = (1.0 - np.array(asked) / len(arms))[round_of]
    no_votes, with_votes = np.flatnonzero(named == none), np.flatnonzero(named < none)
    entries: list[tuple[Any, Any, Any]] = [
        (with_votes, SCALE, weight[with_votes]),
        (with_votes, ALONE, (weight * absent)[with_votes]),
        (candidate, SHARED + arm, 1.0),
        (no_votes, NONE, 1.0),
    ]
    design = _sparse(entries, (len(codes), SHARED + len(arms)))
    return ChoiceSets(design, np.searchsorted(round_of, np.arange(len(rows))), chosen)


def _votes(
    rows: Sequence[KeptRound], arms: Sequence[str], labels: Sequence[str]
) -> tuple[NDArray[np.int64], Array]:
    """The V votes for known labels: positions of round, arm and label, shape (3, V), and weights, (V,)."""
    arm_at = {arm: position for position, arm in enumerate(arms)}
    label_at = {label: position for position, label in enumerate(labels)}
    cast = [
        (position, arm_at[vote.arm], label_at[vote.label], vote.weight)
        for position, row in enumerate(rows)
        for vote in row.votes
        if vote.label in label_at
    ]
    *places, weights = zip(*cast, strict=True)
    return np.array(places, dtype=np.int64), np.array(weights, dtype=np.float64)


def _sparse(entries: Sequence[tuple[Any, Any, Any]], shape: tuple[int, int]) -> Any:
    """A sparse matrix from groups of (rows, columns, values); each group is broadcast to one shape."""
    parts = zip(*(np.broadcast_arrays(*entry) for entry in entries), strict=True)
    row, column, value = (np.concatenate(part) for part in parts)
    return sparse.csr_matrix((value, (row, column)), shape=shape)
