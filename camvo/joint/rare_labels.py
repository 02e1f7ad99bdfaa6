"""Labels beside two common ones: the model of votes stays one of two labels.

Many label sets have an option such as "Unclear" that models hardly use. Votes on two labels determine how
each arm leans to one of them, votes on more do not, so one stray vote must not decide which model is fitted.
Once per fit, the labels are therefore chosen that the model of votes distinguishes. A vote for another label
counts as none there. How probable such a label is follows from which arms vote for it, and how often each
does so on items with it and on others: some models say "Unclear" to whatever is hard.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from camvo.joint.models import fit_vote_model
from camvo.joint.votes import Rows, renumber
from camvo.joint.votes_fit import constant_arms
from camvo.state.exploration import SILENT, UNASKED, PatternCounts
from camvo.typing import Array

_FEWEST_ROUNDS: Final = 30
_RARE: Final = 0.03
"""Labels with at most this share of the votes, and two standard errors of it, are left to rare labels."""

_MOST: Final = 0.2
"""Up to this share of the votes, held-out votes choose."""

_ERRORS: Final = 2.0


@lru_cache(maxsize=64)
def labels_of_votes(
    evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[str, ...]:
    """The labels that the model of votes distinguishes: the two commonest, or all.

    It is two if hardly any vote is for another label, or if two labels and rare ones predict held-out votes
    better by two standard errors. An option that nobody votes for changes nothing. Rounds whose patterns do
    not name their labels leave all. Constant arms do not count: they would make any other label look rare.
    """
    if len(labels) <= 2:
        return labels
    rounds = _NamedRounds.of(evidence, _varying(evidence, arms, labels), labels)
    votes = rounds.counts @ (rounds.rows[:, :, None] == np.arange(len(labels))).sum(axis=1)
    if rounds.counts.sum() < _FEWEST_ROUNDS:
        return labels
    common = np.sort(np.argsort(-votes, kind="stable")[:2])
    total = float(votes.sum())
    others = total - float(votes[common].sum())
    if others > _RARE * total + _ERRORS * np.sqrt(_RARE * total) and (
        others > _MOST * total or not rounds.two_predict_better(common)
    ):
        return labels
    return tuple([labels[place] for place in common.tolist()])


def _varying(evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...]) -> tuple[str, ...]:
    """The arms without the constant ones."""
    return tuple(np.delete(arms, constant_arms(evidence, arms, labels)).tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _NamedRounds:
    """Rounds that asked all arms: rows of the votes' positions among M labels, (P, K), and their counts."""

    rows: Rows
    counts: Array
    labels: int

    @classmethod
    def of(cls, evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...]) -> _NamedRounds:
        found: Counter[tuple[int, ...]] = Counter()
        for pattern, count in evidence.patterns.items():
            if count > 0 and pattern.everyone and set(pattern.labels) == set(labels):
                group_of = dict(zip(pattern.arms, pattern.groups, strict=True))
                groups = [group_of.get(arm, UNASKED) for arm in arms]
                found[tuple([labels.index(pattern.labels[at]) if at >= 0 else at for at in groups])] += count
        ordered = sorted(found)
        rows = np.array(ordered, dtype=np.int64).reshape(-1, len(arms))
        return cls(rows, np.array([found[row] for row in ordered], dtype=np.float64), len(labels))

    def rare(self, place: int, counts: Array) -> _Rare:
        """What so many rounds of each row say about the label at a position."""
        return _fitted(self.rows == place, self.rows >= 0, counts)

    def two_predict_better(self, common: Rows) -> bool:
        """Whether a model of two labels and rare ones predicts held-out votes better."""
        rng = np.random.default_rng(0)
        half = rng.binomial(self.counts.astype(np.int64), 0.5).astype(np.float64)
        gains = np.zeros(len(self.rows))
        squares = np.zeros(len(self.rows))
        for held in (half, self.counts - half):
            gain = self._by_two(self.counts - held, common) - self._by_all(self.counts - held)
            gains += held * gain
            squares += held * gain**2
        rounds = float(self.counts.sum())
        mean = float(gains.sum()) / rounds
        error = np.sqrt(max(float(squares.sum()) / rounds - mean**2, 0.0) / rounds)
        return bool(mean > _ERRORS * error)

    def _by_all(self, counts: Array) -> Array:
        """The log-probability of each row by the model of all labels, with their shares, shape (P,)."""
        numbered = renumber(self.rows)
        model = fit_vote_model(numbered, counts, self.labels, np.ones(self.rows.shape[1]))
        right, evidence = model.beliefs(numbered)
        chances: Array = np.full((len(self.rows), self.labels), -1.0)
        for column, number in zip(self.rows.T, numbered.T, strict=True):
            voted = np.flatnonzero(column >= 0)
            chances[voted, column[voted]] = right[voted, number[voted]]
        without = chances < 0.0
        rest = np.maximum(1.0 - right.sum(axis=1), 0.0) / np.maximum(without.sum(axis=1), 1)
        chances = np.where(without, rest[:, None], chances)
        shares = (counts @ chances + 1.0) / (counts.sum() + self.labels)
        return np.asarray(evidence + np.log(chances @ shares * self.labels), dtype=np.float64)

    def _by_two(self, counts: Array, common: Rows) -> Array:
        """The same by the model of two labels and the rare ones."""
        numbers: Rows = np.full(self.labels, SILENT, dtype=np.int64)
        numbers[common] = np.arange(2)
        two: Rows = np.where(self.rows >= 0, numbers[np.maximum(self.rows, 0)], self.rows)
        _, evidence = fit_vote_model(two, counts, 2, np.ones(self.rows.shape[1])).beliefs(two)
        others, share = [], 0.0
        strays: Array = np.zeros(self.rows.shape[1])
        for place in np.flatnonzero(numbers == SILENT).tolist():
            named, rare = self.rows == place, self.rare(place, counts)
            missed = np.log1p(-rare.hit) - np.log(self.labels - 1)
            others.append(
                np.log(rare.share) + named @ np.log(rare.hit) + ((self.rows >= 0) & ~named) @ missed
            )
            evidence = evidence + named @ np.log(rare.stray)
            share, strays = share + rare.share, strays + rare.stray
        evidence = evidence + (two >= 0) @ np.log1p(-np.minimum(strays, _MOST_OFTEN)) + np.log1p(-share)
        return np.asarray(np.logaddexp.reduce([evidence, *others], axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Rare:
    """A rare label: the share of items with it, and how often each arm votes for it there and elsewhere."""

    share: float
    hit: Array
    stray: Array

    def odds(self, named: Array, cast: Array) -> Array:
        """The odds of the label, given which arms voted for it, and which voted, shapes (n, K)."""
        logs = named @ np.log(self.hit / self.stray)
        logs += (cast - named) @ (np.log1p(-self.hit) - np.log1p(-self.stray))
        return np.asarray(self.share / (1.0 - self.share) * np.exp(logs), dtype=np.float64)


_STEPS: Final = 20
_SHARE_PRIOR, _SHARE_ROUNDS = 0.5, 100.0
"""Prior pseudo-items with the label, and in all."""

_HIT_PRIOR, _STRAY_PRIOR, _PRIOR_VOTES = 0.7, 0.02, 50.0
_PULL: Final = 25.0
"""How many votes pull an arm's rate towards that of all."""

_MOST_OFTEN: Final = 0.95
"""The most that an arm votes for a rare label, on items with it and on others."""
_LEAST_HIT, _LEAST_STRAY = 0.4, 0.02
"""Arms err together on hard items, so two stray votes for one label are likelier than their product."""


@dataclass(frozen=True, slots=True)
class RareLabels:
    """The labels of a question that its model of votes does not distinguish.

    Attributes:
        options: all labels of the question.
        labels: those labels.
    """

    options: tuple[str, ...]
    labels: Mapping[str, _Rare]
    arms: tuple[str, ...]

    def mixed(self, probabilities: Mapping[str, float], votes: Mapping[str, str]) -> dict[str, float]:
        """The probabilities of all labels, given those of the common labels, and the votes (arm → label)."""
        cast = np.array([arm in votes for arm in self.arms], dtype=np.float64)
        odds = {
            label: float(rare.odds(np.array([votes.get(arm) == label for arm in self.arms]) * 1.0, cast))
            for label, rare in self.labels.items()
        }
        total = 1.0 + sum(odds.values())
        common = {label: value / total for label, value in probabilities.items()}
        return common | {label: value / total for label, value in odds.items()}

    def leads(self, values: Mapping[str, float]) -> bool:
        """Whether a rare label is the best one, by the values of answers. Plans know nothing of it then."""
        return max(values, key=lambda label: values[label]) in self.labels

    def gains(
        self,
        probabilities: Mapping[str, float],
        values: Mapping[str, float],
        arms: Iterable[str],
        losses: Mapping[str, float],
    ) -> dict[str, float]:
        """The most that the vote of each arm adds because a rare label may be right.

        Where one leads, that is what is expected to be lost; elsewhere, the probability that a rare one is
        right and that the arm says so, times what missing it loses (1 unless ``losses`` says more).
        """
        if self.leads(values):
            return dict.fromkeys(arms, 1.0 - max(values.values()))
        found: Array = sum(
            (losses.get(label, 1.0) * probabilities[label] * rare.hit for label, rare in self.labels.items()),
            np.zeros(len(self.arms)),
        )
        by_arm = dict(zip(self.arms, found.tolist(), strict=True))
        return {arm: by_arm.get(arm, 0.0) for arm in arms}

    def kept(self, probabilities: Mapping[str, float], values: Mapping[str, float], common: float) -> float:
        """The probability that the votes of all arms leave the label; ``common`` if no rare one is right."""
        if self.leads(values):
            return probabilities[max(values, key=lambda label: values[label])]
        return common - sum(probabilities[label] for label in self.labels)

    @classmethod
    def fit(
        cls, evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...], common: tuple[str, ...]
    ) -> RareLabels:
        """Fit the labels that are not common to the rounds that asked all arms, without constant arms."""
        arms = _varying(evidence, arms, labels)
        rounds = _NamedRounds.of(evidence, arms, labels)
        rare = {
            label: rounds.rare(place, rounds.counts)
            for place, label in enumerate(labels)
            if label not in common
        }
        return cls(labels, rare, arms)


def _fitted(named: NDArray[np.bool_], cast: NDArray[np.bool_], counts: Array) -> _Rare:
    """Fit a mixture of two kinds of items by EM to which arms voted for a label, and which voted, (P, K)."""
    said, voted, arms = named.astype(np.float64), cast.astype(np.float64), named.shape[1]
    rare = _Rare(_SHARE_PRIOR / _SHARE_ROUNDS, np.full(arms, _HIT_PRIOR), np.full(arms, _STRAY_PRIOR))
    for _ in range(_STEPS):
        odds = rare.odds(said, voted)
        ours = counts * odds / (1.0 + odds)
        others = counts - ours
        hit = _rate(ours @ said, ours @ voted, _HIT_PRIOR)
        stray = _rate(others @ said, others @ voted, _STRAY_PRIOR)
        share = float((ours.sum() + _SHARE_PRIOR) / (counts.sum() + _SHARE_ROUNDS))
        rare = _Rare(share, np.clip(hit, _LEAST_HIT, _MOST_OFTEN), np.clip(stray, _LEAST_STRAY, _MOST_OFTEN))
    return rare


def _rate(said: Array, cast: Array, prior: float) -> Array:
    """How often each arm said it, pulled towards the mean of all, shape (K,)."""
    mean = (said.sum() + _PRIOR_VOTES * prior) / (cast.sum() + _PRIOR_VOTES)
    return np.asarray((said + _PULL * mean) / (cast + _PULL), dtype=np.float64)
