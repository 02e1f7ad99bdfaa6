"""The joint policy's fit to votes and human labels, outside a replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from camvo.joint.joint_fit import JointFit
from camvo.state.contribution import KeptRound, LatestRounds
from camvo.state.exploration import PatternCounts, VotePattern, named_labels

Cast = dict[str, str | None]
"""Arm → label, ``None`` if it gave none. Arms that were not asked are absent."""


def fitted(
    rounds: Sequence[Cast],
    taught: Sequence[tuple[Cast, str]],
    prices: dict[str, float],
    labels: tuple[str, ...],
) -> JointFit:
    """Fit the model of votes to rounds, and the human terms to those of them that people labelled.

    Args:
        rounds: the votes of each round; those that asked every arm count as drawn at random.
        taught: the votes of labelled rounds, each with its human label.
        prices: arm → its price.
        labels: the label set.
    """
    arms, named = tuple(sorted(prices)), named_labels(labels)
    patterns = Counter(
        VotePattern.of(arms, cast, everyone=len(cast) == len(arms), labels=named) for cast in rounds
    )
    latest = LatestRounds(tuple([KeptRound.of(cast, label) for cast, label in taught]))
    shares = {arm: price / sum(prices.values()) / 10.0 for arm, price in prices.items()}
    return JointFit.fit(PatternCounts(dict(patterns), len(rounds)), latest, labels, shares)


def labelled_by(fit: JointFit, rounds: Sequence[Cast]) -> NDArray[np.int64]:
    """The position of the label that a fit gives each round, shape (n,)."""
    known: dict[tuple[tuple[str, str | None], ...], int] = {}
    for cast in rounds:
        key = tuple(sorted(cast.items()))
        if key not in known:
            said = fit.probabilities(cast)
            known[key] = fit.options.index(max(said, key=lambda label: said[label]))
    return np.array([known[tuple(sorted(cast.items()))] for cast in rounds])
