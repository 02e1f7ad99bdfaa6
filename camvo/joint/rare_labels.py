"""Labels beside two common ones: the model of votes stays one of two labels.

Many label sets have an option such as "Unclear" that models hardly use. Votes on two labels determine how
each arm leans to one of them, votes on more do not, so one stray vote must not decide which model is fitted.
Once per fit, the labels are therefore chosen that the model of votes distinguishes. A vote for another label
counts as none there. How probable such a label is follows from how many of a round's votes are for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from camvo.joint.models import fit_vote_model
from camvo.joint.votes import Rows, renumber
from camvo.state.exploration import SILENT, UNASKED, PatternCounts
from camvo.typing import Array

_FEWEST_ROUNDS: Final = 30
_RARE: Final = 0.03
"""Labels with at most this share of the votes, and two standard errors of it, are left to rare labels."""

_MOST: Final = 0.25
"""Up to this share of the votes, held-out votes choose."""

_MOST_STRAY: Final = 0.03
"""How often an arm may vote for another label on items without it."""

_ERRORS: Final = 2.0


@lru_cache(maxsize=64)
def labels_of_votes(
    evidence: PatternCounts, arms: tuple[str, ...], labels: tuple[str, ...]
) -> tuple[str, ...]:
    """The labels that the model of votes distinguishes: the two commonest, or all.

    It is two if hardly any vote is for another label. It is also two if hardly any vote for another label is
    on an item without it, and if that predicts held-out votes better by two standard errors. An option that
    nobody votes for changes nothing. Rounds whose patterns do not name their labels leave all.
    """
    if len(labels) <= 2:
        return labels
    rounds = _NamedRounds.of(evidence, arms, labels)
    votes = rounds.counts @ (rounds.rows[:, :, None] == np.arange(len(labels))).sum(axis=1)
    if rounds.counts.sum() < _FEWEST_ROUNDS:
        return labels
    common = np.sort(np.argsort(-votes, kind="stable")[:2])
    total = float(votes.sum())
    others = total - float(votes[common].sum())
    if others > _RARE * total + _ERRORS * np.sqrt(_RARE * total) and (
        others > _MOST * total or not rounds.are_apart(common) or not rounds.two_predict_better(common)
    ):
        return labels
    return tuple([labels[place] for place in common.tolist()])


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
            if pattern.everyone and set(pattern.labels) == set(labels):
                group_of = dict(zip(pattern.arms, pattern.groups, strict=True))
                groups = [group_of.get(arm, UNASKED) for arm in arms]
                found[tuple([labels.index(pattern.labels[at]) if at >= 0 else at for at in groups])] += count
        ordered = sorted(found)
        rows = np.array(ordered, dtype=np.int64).reshape(-1, len(arms))
        return cls(rows, np.array([found[row] for row in ordered], dtype=np.float64), len(labels))

    def rare(self, place: int, counts: Array) -> _Rare:
        """What so many rounds of each row say about the label at a position."""
        voices = (self.rows == place).sum(axis=1).astype(np.float64)
        return _fitted(voices, (self.rows >= 0).sum(axis=1).astype(np.float64), counts)

    def are_apart(self, common: Rows) -> bool:
        """Whether arms hardly vote for the labels that are not common on items without them."""
        others = [place for place in range(self.labels) if place not in common]
        return all(self.rare(place, self.counts).stray <= _MOST_STRAY for place in others)

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
        cast = (self.rows >= 0).sum(axis=1).astype(np.float64)
        others, share, strays = [], 0.0, 0.0
        for place in np.flatnonzero(numbers == SILENT).tolist():
            voices, rare = (self.rows == place).sum(axis=1), self.rare(place, counts)
            missed = np.log1p(-rare.hit) - np.log(self.labels - 1)
            others.append(np.log(rare.share) + voices * np.log(rare.hit) + (cast - voices) * missed)
            evidence = evidence + voices * np.log(rare.stray)
            share, strays = share + rare.share, strays + rare.stray
        evidence = evidence + (two >= 0).sum(axis=1) * np.log1p(-strays) + np.log1p(-share)
        return np.asarray(np.logaddexp.reduce([evidence, *others], axis=0), dtype=np.float64)


@dataclass(frozen=True, slots=True)
class _Rare:
    """A rare label: the share of items with it, and how often an arm votes for it on these and on others."""

    share: float
    hit: float
    stray: float

    def odds(self, voices: Array, cast: Array) -> Array:
        """The odds of the label where so many of the votes cast are for it."""
        against = np.log1p(-self.hit) - np.log1p(-self.stray)
        logs = voices * np.log(self.hit / self.stray) + (cast - voices) * against
        return np.asarray(self.share / (1.0 - self.share) * np.exp(logs), dtype=np.float64)


_STEPS: Final = 20
_SHARE_PRIOR, _SHARE_ROUNDS = 0.5, 100.0
"""Prior pseudo-items with the label, and in all."""

_HIT_PRIOR, _STRAY_PRIOR, _PRIOR_VOTES = 0.7, 0.02, 50.0
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

    def mixed(self, probabilities: Mapping[str, float], votes: Mapping[str, str]) -> dict[str, float]:
        """The probabilities of all labels, given those of the common labels, and the votes (arm → label)."""
        voices = Counter(votes.values())
        odds = {
            label: float(rare.odds(np.array(voices[label]), np.array(len(votes))))
            for label, rare in self.labels.items()
        }
        total = 1.0 + sum(odds.values())
        common = {label: value / total for label, value in probabilities.items()}
        return common | {label: value / total for label, value in odds.items()}

    @classmethod
    def fit(
        cls,
        evidence: PatternCounts,
        arms: tuple[str, ...],
        labels: tuple[str, ...],
        common: tuple[str, ...],
    ) -> RareLabels:
        """Fit the labels that are not common to the rounds that asked all arms."""
        rounds = _NamedRounds.of(evidence, arms, labels)
        rare = {
            label: rounds.rare(place, rounds.counts)
            for place, label in enumerate(labels)
            if label not in common
        }
        return cls(labels, rare)


def _fitted(voices: Array, cast: Array, counts: Array) -> _Rare:
    """Fit a mixture of two binomials by EM to how many of the votes cast are for a label."""
    rare = _Rare(_SHARE_PRIOR / _SHARE_ROUNDS, _HIT_PRIOR, _STRAY_PRIOR)
    for _ in range(_STEPS):
        odds = rare.odds(voices, cast)
        ours = counts * odds / (1.0 + odds)
        others = counts - ours
        hit = float((ours @ voices + _PRIOR_VOTES * _HIT_PRIOR) / (ours @ cast + _PRIOR_VOTES))
        stray = float((others @ voices + _PRIOR_VOTES * _STRAY_PRIOR) / (others @ cast + _PRIOR_VOTES))
        share = float((ours.sum() + _SHARE_PRIOR) / (counts.sum() + _SHARE_ROUNDS))
        rare = _Rare(share, max(hit, _LEAST_HIT), max(stray, _LEAST_STRAY))
    return rare
