from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from camvo.policies.policy import JointFitData, fitted
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import PatternCounts, VotePattern

LABELS = ("w", "x", "y", "z")
ARMS = ("a", "b", "c")
SHARES = (("a", 0.6), ("b", 0.3), ("c", 0.1))


@pytest.fixture(scope="module")
def experience():
    rng, patterns = np.random.default_rng(0), {}
    for _ in range(300):
        truth = rng.integers(4)
        said = np.where(rng.random(3) < 0.7, truth, rng.integers(4, size=3))
        votes = {arm: LABELS[vote] for arm, vote in zip(ARMS, said, strict=True)}
        pattern = VotePattern.of(ARMS, votes, everyone=True)
        patterns[pattern] = patterns.get(pattern, 0) + 1
    return JointFitData(PatternCounts(patterns, 300), LatestRounds(), LABELS, SHARES)


def test_a_fit_is_computed_once(experience):
    assert fitted(replace(experience)) is fitted(experience)


def test_only_a_fit_for_an_agreement_has_stops_for_it(experience):
    assert fitted(experience).stops is None
    assert fitted(replace(experience, agreement=0.9, shares=SHARES)).stops is not None


def test_a_fit_for_one_agreement_cannot_take_the_place_of_one_for_another(experience):
    kinds = {replace(experience, agreement=agreement).kind for agreement in (None, 0.9, 0.99)}
    assert len(kinds) == 3
