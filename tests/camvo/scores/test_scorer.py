from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from camvo.scores.calibration import IDENTITY
from camvo.scores.scorer import FinishedRound, Panel, Scorer
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


@pytest.mark.parametrize("trust", [0.0, 0.5, 0.8, 1.0])
def test_a_decisions_own_score_counts_as_far_as_it_is_trusted(trust):
    scorer = Scorer.fit((), ARMS, LABELS)
    decision = Decision("no", 0.5, {}, trust)
    expected = trust * 0.5 + (1.0 - trust) * scorer.score(UNANIMOUS, "no")
    assert scorer.score_decision(UNANIMOUS, decision) == pytest.approx(expected)


def sure_rounds(own, trust=0.5):
    """Rounds whose votes often part, so that no panel is as sure of them as this own score."""
    for votes in (("yes", "no", "no"), ("no", "no", "no"), ("maybe", "no", "maybe"), ("yes", "yes", "no")):
        for _ in range(30):
            label = max(votes, key=votes.count)
            yield FinishedRound(dict(zip(ARMS, votes, strict=True)), label, own=own, trust=trust)


def test_untaught_own_scores_are_tempered_to_the_level_of_the_panel():
    known = list(sure_rounds(own=0.99))
    scorer = Scorer.fit(known, ARMS, LABELS)
    surest = [max(scorer.panel.posterior(round_.votes, LABELS).values()) for round_ in known]
    tempered = expit(scorer.exponent * logit(0.99))
    assert tempered == pytest.approx(np.mean(surest))
    shown = scorer.score_decision(UNANIMOUS, Decision("no", 0.99, {}, 0.5))
    assert shown == pytest.approx((tempered + scorer.score(UNANIMOUS, "no")) / 2.0)


def test_own_scores_below_the_panels_stay_as_they_are():
    assert Scorer.fit(sure_rounds(own=0.6), ARMS, LABELS).exponent == 1.0


def test_the_more_an_own_score_is_taught_the_less_it_is_tempered():
    scorer = Scorer.fit(sure_rounds(own=0.99), ARMS, LABELS)
    shown = [scorer.score_decision(UNANIMOUS, Decision("no", 0.99, {}, trust)) for trust in (0.5, 0.75, 1.0)]
    assert shown == sorted(shown)
    assert shown[-1] == pytest.approx(0.99)


def test_a_panel_that_finds_another_label_more_probable_has_no_say():
    scorer = Scorer.fit(sure_rounds(own=0.99), ARMS, LABELS)
    votes = {"a": "yes", "b": "no", "c": "no"}
    assert scorer.score(votes, "yes") < 0.4
    shown = scorer.score_decision(votes, Decision("yes", 0.99, {}, 0.5))
    assert shown == pytest.approx(expit(scorer.exponent * logit(0.99)))


def test_a_label_that_panel_and_own_score_find_improbable_gets_no_higher_score_than_both():
    scorer = Scorer.fit(sure_rounds(own=0.99), ARMS, LABELS)
    shown = scorer.score_decision(UNANIMOUS, Decision("yes", 0.01, {}, 0.5))
    assert shown <= max(scorer.score(UNANIMOUS, "yes"), 0.01)


def test_a_decision_without_a_model_of_votes_has_the_panels_score():
    scorer = Scorer.fit(sure_rounds(own=0.99), ARMS, LABELS)
    votes = {"a": "yes", "b": "no", "c": "no"}
    assert scorer.score_decision(votes, Decision("yes", 0.99, {})) == scorer.score(votes, "yes")


def test_taught_own_scores_say_nothing_of_how_far_to_temper_untaught_ones():
    untaught, taught = sure_rounds(own=0.99), sure_rounds(own=0.6, trust=1.0)
    together = Scorer.fit([*untaught, *taught], ARMS, LABELS)
    assert together.exponent == pytest.approx(
        Scorer.fit(sure_rounds(own=0.99), ARMS, LABELS).exponent, abs=0.01
    )


def answered(own, trust):
    """Rounds on one pattern of votes, of which the own score knows half of those that people find right."""
    for number in range(80):
        right = float(number % 4 > 0)
        sure = own if right else 1.0 - own
        yield FinishedRound(UNANIMOUS, "no", right, sure if number % 2 else 0.75, trust)


def test_a_taught_own_score_that_predicts_answers_better_gains_share():
    scorer = Scorer.fit(answered(own=0.95, trust=0.9), ARMS, LABELS)
    assert scorer.evidence > 1.0
    shown = scorer.score_decision(UNANIMOUS, Decision("no", 0.95, {}, 0.9))
    assert shown == pytest.approx(0.95, abs=0.02)


def test_a_taught_own_score_that_people_contradict_loses_its_share():
    scorer = Scorer.fit(answered(own=0.05, trust=0.9), ARMS, LABELS)
    assert scorer.evidence < -5.0
    shown = scorer.score_decision(UNANIMOUS, Decision("no", 0.95, {}, 0.9))
    assert shown == pytest.approx(scorer.score(UNANIMOUS, "no"), abs=0.01)


def test_answers_to_untaught_own_scores_say_nothing_of_taught_ones():
    assert Scorer.fit(answered(own=0.05, trust=0.5), ARMS, LABELS).evidence == 0.0
