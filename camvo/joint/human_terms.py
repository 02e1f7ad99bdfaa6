"""Corrections of the model of votes by human labels: a conditional logit over the labels that got a vote.

People and models disagree systematically, so human labels do not enter the model of votes as truths, which
would spoil it. They correct its probabilities: by one exponent, by a term for each arm's vote, by a term for
each label, and by a term for "none of the labels that got a vote". With two labels both are candidates.
Few human labels cannot determine the many terms for arms and labels, so each term is only as large as
held-out labels prove.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import numpy as np
from scipy import sparse

from camvo.joint.grades import NO_GRADES, Grades
from camvo.joint.votes import Rows, row_of
from camvo.numerics.logit import ChoiceSets, NormalPrior, fit_averaged_logit, fit_proven_logit
from camvo.numerics.small import EPSILON
from camvo.state.contribution import KeptRound
from camvo.typing import Array

_EXPONENT, _EXPONENT_PRECISION = 1.0, 2.0
_LEAST_EXPONENT: Final = 0.1
_PINNED: Final = 1e9
"""The precision of a coefficient that is known."""

_LEAST_DIVISOR: Final = 1.0 / 3.0
_ARM_PRECISION: Final = 20.0
_LABEL_PRECISION: Final = 20.0
_TIGHTNESSES: Final = (16.0, 4.0, 1.0)
"""How many times these precisions count until held-out labels prove that the terms predict better."""

_ERRORS: Final = 0.0
"""How many standard errors prove it with two labels, where every round informs most terms. With more, most
terms belong to labels that occur in few rounds, so fits are averaged and none is chosen."""

_SURE, _SURE_PRECISION = 0.5, 2.0
"""The prior of what the log ratios of confidences are multiplied by."""


@dataclass(frozen=True, slots=True, eq=False)
class HumanTerms:
    """Corrections of the model's probabilities.

    Attributes:
        exponent: the exponent of the model's probability.
        arms: what each arm's vote adds to the log-probability of its label, shape (K,).
        labels: label → what is added to its log-probability.
        none: what is added to the log-probability that no label with a vote is right.
        count: the number of human labels.
        sure: what the log ratios of confidences are multiplied by, at least 0; ``None`` if there are none.
    """

    exponent: float
    arms: Array
    labels: Mapping[str, float]
    none: float
    count: int
    sure: float | None = None

    @property
    def divisor(self) -> float:
        """What plans divide the terms by: the exponent, but a third at least.

        At an exponent of 0.2 each term would count five times, and plans would come to believe one arm nearly
        alone, while the label and its probability count the terms once.
        """
        return max(self.exponent, _LEAST_DIVISOR)

    @property
    def left_out(self) -> float:
        """The share of an arm's or label's term that :meth:`correct` leaves out, apart from the exponent."""
        return 1.0 - self.exponent / self.divisor

    def correct(self, rows: Rows, right: Array, named: Sequence[str] = ()) -> Array:
        """Add the terms of arms and labels to the probabilities (P, G) of the labels in vote rows (P, K).

        ``named`` is the label of each number if all rows number labels alike; else no label's term is added.

        The exponent measures how overconfident the model of votes is, mostly because arms make the same
        errors, and the term for "none of the labels that got a vote" how often all of them miss the right
        label. More votes reduce neither, so plans of whom to ask leave both out (:meth:`said` applies them).
        The exponent does not change the order of the labels unless it is below a third.
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
        logs = np.log(np.maximum(right, EPSILON)) + terms / self.divisor
        rest = np.where(none > EPSILON, np.log(np.maximum(none, EPSILON)), -np.inf)
        top = np.maximum(np.where(present, logs, -np.inf).max(axis=1), rest)
        mass = np.where(present, np.exp(logs - top[:, None]), 0.0)
        return np.asarray(mass / (mass.sum(axis=1) + np.exp(rest - top))[:, None], dtype=np.float64)

    def said(
        self,
        probabilities: Mapping[str, float],
        votes: Mapping[str, str],
        arms: Sequence[str],
        labels: Sequence[str],
    ) -> dict[str, float]:
        """The probability that people say each label with a vote, by those of :meth:`correct`.

        Adds the exponent, and what :meth:`correct` left out.
        """
        terms = self.left_to_add(votes, arms, named=len(labels) == 2)
        return self.calibrate(probabilities, terms, others=len(probabilities) < len(labels))

    def left_to_add(self, votes: Mapping[str, str], arms: Sequence[str], *, named: bool) -> dict[str, float]:
        """Label → what :meth:`correct` has not added to its log-probability."""
        terms = {label: (self.left_out if named else 1.0) * term for label, term in self.labels.items()}
        for arm, term in zip(arms, self.arms.tolist(), strict=True):
            if (label := votes.get(arm)) is not None and label in terms:
                terms[label] += self.left_out * term
        return terms

    def calibrate(
        self, probabilities: Mapping[str, float], terms: Mapping[str, float], *, others: bool
    ) -> dict[str, float]:
        """Add the exponent, and what is left of the terms, to the probabilities of labels that got a vote."""
        rest = max(1.0 - sum(probabilities.values()), EPSILON)
        none = rest**self.exponent * math.exp(self.none) if others else 0.0
        odds = {
            label: max(value, EPSILON) ** self.exponent * math.exp(terms.get(label, 0.0))
            for label, value in probabilities.items()
        }
        total = sum(odds.values()) + none
        return {label: value / total for label, value in odds.items()}

    def describe(self) -> dict[str, Any]:
        """The terms as plain JSON."""
        return {
            "exponent": self.exponent,
            "arms": self.arms.tolist(),
            "labels": dict(self.labels),
            "none": self.none,
            "count": self.count,
        } | ({} if self.sure is None else {"sure": self.sure})

    @classmethod
    def fit(
        cls,
        beliefs: Callable[[Rows], Array],
        rounds: Sequence[KeptRound],
        arms: Sequence[str],
        labels: Sequence[str],
        grades: Grades = NO_GRADES,
    ) -> HumanTerms | None:
        """Fit the terms to the rounds with a vote and a human label in the label set; ``None`` without any.

        ``beliefs`` gives the probability of each number's label, shape (P, G), by vote rows, shape (P, K).
        """
        rows, names, truths, ratios = [], [], [], []
        for round_ in rounds:
            row, named = row_of({vote.arm: vote.label for vote in round_.votes}, arms, labels)
            if round_.label in labels and any(number >= 0 for number in row):
                rows.append(row)
                names.append(named)
                truths.append(round_.label)
                ratios.append(_ratios(round_, grades, named))
        if not rows:
            return None
        ordered = sorted(labels)
        choices = _choices(beliefs, np.array(rows), names, truths, ordered)
        precisions = (
            [_EXPONENT_PRECISION] * 2 + [_ARM_PRECISION] * len(arms) + [_LABEL_PRECISION] * len(labels)
        )
        mean = [_EXPONENT] + [0.0] * (len(precisions) - 1)
        if grades.arms:
            choices = _with_column(choices, ratios)
            mean, precisions = [*mean, _SURE], [*precisions, _SURE_PRECISION]
        prior = NormalPrior(np.array(mean), np.array(precisions))
        corrections = np.zeros(len(mean), dtype=np.bool_)
        corrections[2 : 2 + len(arms) + len(labels)] = True
        fit = fit_averaged_logit
        if len(labels) == 2:
            fit = partial(fit_proven_logit, errors=_ERRORS)
        exponent, none, *terms = fit(choices, prior, corrections, _TIGHTNESSES).tolist()
        if exponent < _LEAST_EXPONENT:
            # With a lower exponent, terms would repeat its effect: they are refitted with the least exponent.
            prior = NormalPrior(np.array([_LEAST_EXPONENT, *mean[1:]]), np.array([_PINNED, *precisions[1:]]))
            _, none, *terms = fit(choices, prior, corrections, _TIGHTNESSES).tolist()
            exponent = _LEAST_EXPONENT
        return cls(
            exponent,
            np.array(terms[: len(arms)]),
            dict(zip(ordered, terms[len(arms) : len(arms) + len(labels)], strict=True)),
            none,
            len(rows),
            max(terms[-1], 0.0) / exponent if grades.arms else None,
        )


def _ratios(round_: KeptRound, grades: Grades, named: Sequence[str]) -> dict[str, float]:
    """Label → the sum of the log ratios of the confidences in it."""
    votes = {vote.arm: vote.label for vote in round_.votes}
    sure = {vote.arm: vote.confidence for vote in round_.votes if vote.confidence is not None}
    totals = dict.fromkeys(named, 0.0)
    for arm, ratio in grades.log_ratios(votes, sure).items():
        label = votes[arm]
        if label in totals:
            totals[label] += ratio
    return totals


def _with_column(choices: ChoiceSets, ratios: Sequence[Mapping[str, float]]) -> ChoiceSets:
    """Add a column with each candidate's log ratios; 0 for "none of the labels that got a vote"."""
    column = np.zeros((choices.design.shape[0], 1))
    for start, values in zip(choices.starts.tolist(), ratios, strict=True):
        column[start : start + len(values), 0] = [*values.values()]
    return replace(choices, design=sparse.csr_matrix(sparse.hstack((choices.design, column))))


def _choices(
    beliefs: Callable[[Rows], Array],
    rows: Rows,
    names: Sequence[Sequence[str]],
    truths: Sequence[str],
    labels: Sequence[str],
) -> ChoiceSets:
    """The candidates of each round: the labels with a vote, and none of them unless all labels have one."""
    right = beliefs(rows)
    none = np.maximum(1.0 - right.sum(axis=1), EPSILON)
    position = {label: at for at, label in enumerate(labels)}
    features: list[Array] = []
    sizes: list[int] = []
    chosen: list[bool] = []
    arms = rows.shape[1]
    for row, named, truth, chances, rest in zip(rows, names, truths, right, none, strict=True):
        for number, label in enumerate(named):
            line = np.zeros(2 + arms + len(labels))
            line[0] = math.log(max(chances[number], EPSILON))
            line[2 : 2 + arms] = row == number
            line[2 + arms + position[label]] = 1.0
            features.append(line)
            chosen.append(label == truth)
        sizes.append(len(named))
        if len(named) < len(labels):
            line = np.zeros(2 + arms + len(labels))
            line[:2] = math.log(rest), 1.0
            features.append(line)
            chosen.append(truth not in named)
            sizes[-1] += 1
    starts = np.cumsum(sizes, dtype=np.int64) - np.array(sizes, dtype=np.int64)
    return ChoiceSets(sparse.csr_matrix(np.array(features)), starts, np.array(chosen))
