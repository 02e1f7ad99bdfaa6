from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from synthetic_votes import SyntheticModel, draw_votes_table

from camvo.policies.ensemble import Majority
from camvo.policies.rivals import Cascade
from camvo.replays.replay import calibrated_scores, replay
from camvo.scores.calibration import IDENTITY
from camvo.scores.scorer import FinishedRound, Panel, Scorer
from camvo.votes.aggregation import Decision

MODELS = {"a": SyntheticModel(0.9, 4.0), "b": SyntheticModel(0.8, 2.0), "c": SyntheticModel(0.7, 1.0)}
LABELS = ("yes", "no", "maybe")


@pytest.fixture(scope="module")
def table():
    return draw_votes_table(MODELS, items=300, labels=LABELS, seed=1, dimension=2)


@pytest.fixture(scope="module")
def trace(table):
    return replay(Cascade(threshold=0.9), table)


@pytest.fixture(scope="module")
def scores(table, trace):
    return calibrated_scores(trace, table)


def finished_round(table, trace, item, human=None):
    """Return a round as the server's ledger stores it."""
    votes = {
        arm: LABELS[table.votes[item, column]]
        for column, arm in enumerate(table.prices)
        if trace.asked[item, column]
    }
    right = None if human is None or not human[item] else float(trace.labels[item] == table.truth[item])
    return FinishedRound(votes, LABELS[trace.labels[item]], right)


def test_the_first_score_is_that_of_the_prior(table, trace, scores):
    prior, opening = Scorer(LABELS, Panel.prior(tuple(MODELS)), IDENTITY), finished_round(table, trace, 0)
    assert scores[0] == pytest.approx(prior.score(opening.votes, opening.label))


def first(trace, table, items):
    """Return the trace and the table of the first items only."""
    table = replace(
        table, contexts=table.contexts[:items], votes=table.votes[:items], truth=table.truth[:items]
    )
    parts = {name: getattr(trace, name)[:items] for name in ("labels", "scores", "costs", "asked", "trust")}
    return replace(trace, **parts), table


def test_a_score_is_that_of_a_scorer_fitted_to_the_rounds_before(table, trace):
    human = np.arange(40) % 3 == 0
    rounds = [finished_round(table, trace, item, human) for item in range(40)]
    scores = calibrated_scores(*first(trace, table, 40), human, growth=0.0)
    for item in (1, 20, 39):
        fitted = Scorer.fit(rounds[:item], tuple(MODELS), LABELS)
        assert scores[item] == pytest.approx(fitted.score(rounds[item].votes, rounds[item].label))


def test_own_scores_are_part_of_it_as_far_as_they_are_trusted(table, trace):
    trusted, human = replace(trace, trust=np.where(np.arange(300) % 2, 0.5, 0.9)), np.arange(40) % 3 == 0
    items = zip(range(40), trace.scores[:40].tolist(), trusted.trust[:40].tolist(), strict=True)
    rounds = [
        replace(finished_round(table, trace, item, human), own=own, trust=trust) for item, own, trust in items
    ]
    scores = calibrated_scores(*first(trusted, table, 40), human, growth=0.0)
    for at, finished in enumerate(rounds[20:], start=20):
        fitted = Scorer.fit(rounds[:at], tuple(MODELS), LABELS)
        decision = Decision(finished.label, finished.own, {}, finished.trust)
        assert scores[at] == pytest.approx(fitted.score_decision(finished.votes, decision))


def test_later_rounds_change_no_score(table, trace, scores):
    assert calibrated_scores(*first(trace, table, 150)).tolist() == scores[:150].tolist()


def test_the_truth_of_an_item_without_a_human_label_is_not_used(table, trace):
    human = np.arange(300) < 20
    blind = replace(table, truth=np.where(human, table.truth, 0))
    assert calibrated_scores(trace, blind, human).tolist() == calibrated_scores(trace, table, human).tolist()


def test_human_labels_correct_scores_that_are_too_high(table):
    wrong = replace(table, truth=np.where(np.arange(300) % 3 == 0, (table.truth + 1) % 3, table.truth))
    trace = replay(Majority(), wrong)
    late = np.arange(300) >= 200
    right = np.mean(trace.labels[late] == wrong.truth[late])
    without, with_labels = (
        calibrated_scores(trace, wrong, human)[late].mean() for human in (None, np.ones(300, dtype=np.bool_))
    )
    assert without > right + 0.15
    assert with_labels == pytest.approx(right, abs=0.08)


def test_without_a_label_there_is_no_score(table, trace):
    labels = trace.labels.copy()
    labels[[0, 7]] = -1
    scores = calibrated_scores(replace(trace, labels=labels), table)
    assert np.flatnonzero(np.isnan(scores)).tolist() == [0, 7]
    assert np.isnan(calibrated_scores(replace(trace, labels=np.full(300, -1)), table)).all()


def test_a_label_teaches_the_scores_of_the_items_after_it_and_no_earlier_one(table, trace, scores):
    late = replace(trace, labelled_at=np.where(np.arange(300) < 60, 200, 0))
    taught = calibrated_scores(late, table)
    assert taught[:200].tolist() == scores[:200].tolist()
    assert (taught[200:] != scores[200:]).any()


def test_labels_at_once_are_those_that_the_trace_says(table, trace):
    human = np.arange(300) % 4 == 0
    at_once = replace(trace, labelled_at=np.where(human, np.arange(300) + 1, 0))
    assert calibrated_scores(at_once, table).tolist() == calibrated_scores(trace, table, human).tolist()
