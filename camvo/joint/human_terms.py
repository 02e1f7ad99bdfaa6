"""What human labels say on top of the model of votes: a conditional logit over the labels that got a vote.

People and models disagree systematically, so human labels do not enter the model of votes as truths, which
would spoil it. They correct its probabilities: by one exponent, by a term for each arm's vote, and by a term
for each label.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from scipy import sparse

from camvo.joint.vote_model import VoteModel
from camvo.joint.vote_rows import Rows, row_of
from camvo.numerics.conditional_logit import ChoiceSets, NormalPrior, fit_conditional_logit
from camvo.numerics.tolerances import EPSILON
from camvo.state.kept_rounds import KeptRound
from camvo.typing import Array

_EXPONENT, _EXPONENT_PRECISION = 1.0, 2.0
_ARM_PRECISION: Final = 10.0
_LABEL_PRECISION: Final = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class HumanTerms:
    """Corrections of the model's probabilities.

    Attributes:
        exponent: the exponent of the model's probability.
        arms: what each arm's vote adds to the log-probability of its label, shape (K,).
        labels: label → what is added to its log-probability.
        count: the number of human labels.
    """

    exponent: float
    arms: Array
    labels: Mapping[str, float]
    count: int

    def correct(self, rows: Rows, right: Array, named: Sequence[str] = ()) -> Array:
        """Correct the probabilities of the labels that vote rows name.

        Args:
            rows: shape (P, K).
            right: the probability of each number's label, shape (P, G).
            named: the label of each number if all rows number labels alike; else no label's term is added.

        Returns:
            The corrected probabilities, shape (P, G). Labels without a vote keep their exponent.
        """
        numbers = right.shape[1]
        member = rows[:, None, :] == np.arange(numbers)[None, :, None]
        present = member.any(axis=2)
        terms = member @ self.arms
        for number, label in enumerate(named[:numbers]):
            terms[:, number] += self.labels.get(label, 0.0)
        if len(named) == 2 == numbers:
            present = np.full_like(present, True)
        none = np.maximum(1.0 - right.sum(axis=1), 0.0)
        logs = self.exponent * np.log(np.maximum(right, EPSILON)) + terms
        rest = np.where(none > EPSILON, self.exponent * np.log(np.maximum(none, EPSILON)), -np.inf)
        top = np.maximum(np.where(present, logs, -np.inf).max(axis=1), rest)
        mass = np.where(present, np.exp(logs - top[:, None]), 0.0)
        return np.asarray(mass / (mass.sum(axis=1) + np.exp(rest - top))[:, None], dtype=np.float64)

    def describe(self) -> dict[str, Any]:
        """The terms as plain JSON."""
        return {
            "exponent": self.exponent,
            "arms": self.arms.tolist(),
            "labels": dict(self.labels),
            "count": self.count,
        }


def fit_human_terms(
    model: VoteModel, rounds: Sequence[KeptRound], arms: Sequence[str], labels: Sequence[str]
) -> HumanTerms | None:
    """Fit the terms to rounds with a human label.

    Args:
        model: the model of the K arms' votes.
        rounds: kept rounds. Only those count in which two labels or more got a vote, the human's among them.
        arms: the names of the K arms.
        labels: the label set.

    Returns:
        ``None`` if no round counts.
    """
    rows, names, truths = [], [], []
    for round_ in rounds:
        row, named = row_of({vote.arm: vote.label for vote in round_.votes}, arms, labels)
        voted = {number for number in row if number >= 0}
        if round_.label in named and len(voted) > 1 and named.index(round_.label) in voted:
            rows.append(row)
            names.append(named)
            truths.append(named.index(round_.label))
    if not rows:
        return None
    design, starts, chosen = _design(model, np.array(rows), names, truths, sorted(labels))
    mean = np.zeros(design.shape[1])
    mean[0] = _EXPONENT
    precisions = [_EXPONENT_PRECISION, *[_ARM_PRECISION] * len(arms), *[_LABEL_PRECISION] * len(labels)]
    choices = ChoiceSets(design, starts, chosen)
    fitted = fit_conditional_logit(choices, NormalPrior(mean, np.array(precisions)))
    of_labels = dict(zip(sorted(labels), fitted[1 + len(arms) :].tolist(), strict=True))
    return HumanTerms(max(float(fitted[0]), 0.0), fitted[1 : 1 + len(arms)], of_labels, len(rows))


def _design(
    model: VoteModel, rows: Rows, names: Sequence[Sequence[str]], truths: Sequence[int], labels: Sequence[str]
) -> tuple[Any, Any, Any]:
    """The design matrix, the first candidate of each round, and which candidates are right."""
    right, _ = model.beliefs(rows)
    member = rows[:, None, :] == np.arange(right.shape[1])[None, :, None]
    of_round, number = np.nonzero(member.any(axis=2))
    position = {label: at for at, label in enumerate(labels)}
    label = np.array([position[names[r][g]] for r, g in zip(of_round, number, strict=True)])
    one_hot = np.zeros((len(of_round), len(labels)))
    one_hot[np.arange(len(label)), label] = 1.0
    log_right = np.log(np.maximum(right[of_round, number], EPSILON))
    features = np.column_stack((log_right, member[of_round, number], one_hot))
    starts = np.searchsorted(of_round, np.arange(len(rows)))
    return sparse.csr_matrix(features), starts, number == np.array(truths)[of_round]
