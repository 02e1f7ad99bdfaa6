"""Labels that few votes are for: two common labels stay a model of two labels.

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

from camvo.state.exploration import PatternCounts
from camvo.typing import Array

_FEWEST_ROUNDS: Final = 30
_RARE: Final = 0.03
_ERRORS: Final = 2.0
"""A label is common if its share of the votes is above ``_RARE``, with this many standard errors to spare."""


@lru_cache(maxsize=64)
def labels_of_votes(evidence: PatternCounts, labels: tuple[str, ...]) -> tuple[str, ...]:
    """The labels that the model of votes distinguishes: the two common ones if all others are rare, else all.

    An option that nobody votes for is rare. Patterns that do not name their labels leave all.
    """
    if len(labels) <= 2:
        return labels
    votes: Counter[str] = Counter()
    rounds = 0
    for pattern, count in evidence.patterns.items():
        if pattern.everyone and pattern.labels:
            rounds += count
            for number in pattern.groups:
                if number >= 0:
                    votes[pattern.labels[number]] += count
    expected = _RARE * votes.total()
    common = tuple([label for label in labels if votes[label] > expected + _ERRORS * np.sqrt(expected)])
    return common if rounds >= _FEWEST_ROUNDS and len(common) == 2 else labels


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

    @property
    def share(self) -> float:
        """The share of items with one of these labels."""
        return sum(label.share for label in self.labels.values())

    def mixed(self, probabilities: Mapping[str, float], votes: Mapping[str, str]) -> dict[str, float]:
        """The probabilities of all labels with a vote, given those of the common labels and the votes."""
        voices = Counter(votes.values())
        odds = {
            label: float(rare.odds(np.array(voices[label]), np.array(len(votes))))
            for label, rare in self.labels.items()
            if voices[label]
        }
        total = 1.0 + sum(odds.values())
        common = {label: value / total for label, value in probabilities.items()}
        return common | {label: value / total for label, value in odds.items()}

    @classmethod
    def fit(cls, evidence: PatternCounts, labels: tuple[str, ...], common: tuple[str, ...]) -> RareLabels:
        """Fit the labels that are not common to the rounds that asked all arms."""
        return cls(labels, {label: _fitted(evidence, label) for label in labels if label not in common})


@lru_cache(maxsize=64)
def _fitted(evidence: PatternCounts, label: str) -> _Rare:
    """Fit a mixture of two binomials by EM to how many of each round's votes are for the label."""
    rounds: Counter[tuple[int, int]] = Counter()
    for pattern, count in evidence.patterns.items():
        if pattern.everyone and label in pattern.labels:
            place = pattern.labels.index(label)
            found = sum(number == place for number in pattern.groups)
            rounds[found, sum(number >= 0 for number in pattern.groups)] += count
    voices, cast = np.array([*rounds], dtype=np.float64).reshape(-1, 2).T
    counts = np.array([*rounds.values()], dtype=np.float64)
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
