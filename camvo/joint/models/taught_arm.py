"""The student as an arm of the model of votes: what it says counts, but it is no witness.

The other arms taught the student, so its agreement with them is no evidence for them. The model of votes is
therefore fitted to the votes of the others alone. What the student's vote is worth is then read off the
rounds that asked all others, beside what their votes make probable.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from camvo.joint.models.kinds import Kinds
from camvo.joint.models.two_coins import TwoCoins
from camvo.joint.models.vote_model import VoteModel
from camvo.joint.vote_rows import Rows, VoteRows
from camvo.typing import Array

_PRIOR_ACCURACY, _PRIOR_ROUNDS = 0.5, 20.0
_LOWEST, _HIGHEST = 0.1, 0.995

MOST_OTHERS: Final = 7
"""Plans ask at most so many arms beside the student, which keeps the lattice small."""


def others_say(model: VoteModel, rows: Rows, taught: int) -> Array:
    """The probability of each number's label by the votes of the other arms, shape (P, G) for K arms.

    Args:
        model: the model of the votes of the K − 1 others.
        rows: vote rows of all K arms, shape (P, K), numbered with the taught arm's votes.
        taught: the position of the taught arm.
    """
    right, _ = model.beliefs(np.delete(rows, taught, axis=1))
    wanted = max(right.shape[1], int(rows.max(initial=-1)) + 1)
    return np.pad(right, ((0, 0), (0, wanted - right.shape[1])))


def with_taught_arm(model: VoteModel, votes: VoteRows, taught: int, temper: float) -> VoteModel:
    """The model of the others' votes, and what the taught arm's votes are worth beside it.

    Args:
        model: the model of the votes of the K − 1 others.
        votes: the votes of all K arms; only rounds that asked all others count.
        taught: the position of the taught arm.
        temper: the exponent of its likelihood, in (0, 1].
    """
    counted = (votes.counts > 0.0) & (votes.rows[:, taught] >= 0)
    rows, counts = votes.rows[counted], votes.counts[counted]
    if isinstance(model, TwoCoins):
        right, _ = model.beliefs(np.delete(rows, taught, axis=1))
        said = rows[:, taught, None] == np.arange(2)
        accuracy = _accuracy(counts[:, None] * right * said, counts[:, None] * right)
    elif isinstance(model, Kinds):
        posterior = model.kinds_and_labels(np.delete(rows, taught, axis=1))
        number = np.minimum(rows[:, taught], posterior.shape[1] - 1)
        agreed = np.where(
            (rows[:, taught] < posterior.shape[1] - 1)[:, None],
            posterior[np.arange(len(rows)), number],
            0.0,
        )
        accuracy = _accuracy(counts[:, None] * agreed, counts[:, None] * posterior.sum(axis=1))
    else:
        raise TypeError(type(model).__name__)
    return replace(
        model,
        accuracy=np.insert(model.accuracy, taught, accuracy, axis=0),
        temper=np.insert(model.temper, taught, temper),
    )


def _accuracy(right: Array, cast: Array) -> Array:
    """Accuracies from the weights of right votes and of all votes, summed over rows, with a prior."""
    prior = _PRIOR_ROUNDS * _PRIOR_ACCURACY
    accuracy = (right.sum(axis=0) + prior) / (cast.sum(axis=0) + _PRIOR_ROUNDS)
    return np.asarray(np.clip(accuracy, _LOWEST, _HIGHEST), dtype=np.float64)
