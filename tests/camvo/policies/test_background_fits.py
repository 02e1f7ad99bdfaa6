from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from camvo.policies.background_fits import WeightsFitData, fitted
from camvo.state.kept_rounds import CastVote, KeptRound, LatestRounds
from camvo.weights.corrected_vote_fit import fit_corrected_vote

LABELS = ("w", "x", "y", "z")
WEIGHTS = {"a": 1.5, "b": 1.0, "c": 0.5}


def rounds(n, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        truth = rng.integers(4)
        said = np.where(rng.random(3) < 0.7, truth, rng.integers(4, size=3))
        votes = tuple(CastVote(arm, LABELS[vote], 0.7) for arm, vote in zip(WEIGHTS, said, strict=True))
        yield KeptRound(votes, LABELS[truth], everyone=True)


@pytest.fixture(scope="module")
def experience():
    return WeightsFitData(LatestRounds((*rounds(300),)), LABELS, (*WEIGHTS.items(),))


def test_a_fit_is_computed_once(experience):
    assert fitted(replace(experience)) is fitted(experience)


def test_votes_weigh_what_they_weigh_now_whatever_they_weighed_in_their_round(experience):
    weighted = [round_.weighted(WEIGHTS) for round_ in experience.latest.rounds]
    assert fitted(experience).corrected == fit_corrected_vote(weighted, LABELS)
