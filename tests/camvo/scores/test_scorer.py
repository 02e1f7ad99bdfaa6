from __future__ import annotations

import numpy as np
import pytest

from camvo.scores.calibration import IDENTITY, FinishedRound, Panel, Scorer
from camvo.votes.aggregation import Decision

ARMS, LABELS = ("a", "b", "c"), ("yes", "no", "maybe")


def rounds(n, right=0.8, confirmed=True, seed=1):
    """Rounds in which all models say the same, and people agree with a share of them."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        label = LABELS[rng.integers(3)]
        known = float(rng.random() < right) if confirmed else None
        yield FinishedRound(dict.fromkeys(ARMS, label), label, known)


UNANIMOUS = dict.fromkeys(ARMS, "no")


def test_before_any_round_the_scorer_is_the_prior_panel_uncalibrated():
    assert Scorer.fit((), ARMS, LABELS) == Scorer(LABELS, Panel.prior(ARMS), IDENTITY)


def test_without_human_labels_the_score_is_the_panels_probability():
    scorer = Scorer.fit(rounds(300, confirmed=False), ARMS, LABELS)
    assert scorer.score(UNANIMOUS, "no") == pytest.approx(scorer.panel.posterior(UNANIMOUS, LABELS)["no"])


def test_human_labels_move_the_score_towards_the_accuracy():
    before = Scorer.fit(rounds(500, confirmed=False), ARMS, LABELS).score(UNANIMOUS, "no")
    after = Scorer.fit(rounds(500, right=0.7), ARMS, LABELS).score(UNANIMOUS, "no")
    assert before > 0.9
    assert after == pytest.approx(0.7, abs=0.06)


def test_a_vote_outside_the_label_set_counts_as_no_vote():
    valid = [FinishedRound({"a": "yes", "b": None}, "yes"), FinishedRound({"a": "no", "b": "no"}, "no")]
    odd = [*valid, FinishedRound({"a": "no", "old": "yes"}, "gone"), FinishedRound({"a": "gone"}, "yes")]
    assert Scorer.fit(odd, ("a", "b"), LABELS) == Scorer.fit(valid, ("a", "b"), LABELS)


@pytest.mark.parametrize("trust", [0.0, 0.4, 1.0])
def test_a_decisions_own_score_counts_as_far_as_it_is_trusted(trust):
    scorer = Scorer.fit((), ARMS, LABELS)
    decision = Decision("no", 0.5, {}, trust)
    expected = trust * 0.5 + (1.0 - trust) * scorer.score(UNANIMOUS, "no")
    assert scorer.score_decision(UNANIMOUS, decision) == pytest.approx(expected)
