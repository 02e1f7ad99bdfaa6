"""What plans lose because their fit is uncertain, by an estimate without labels, and how it steers rounds."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from made_up_votes import draw_votes, evidence_of, no_rounds, rows_of

from camvo.joint.joint_fit import JointFit
from camvo.joint.regret import regret_of
from camvo.policies.joint import _MOST_PACE, FIRST, LEAST_PACE, Joint, exploration_pace
from camvo.state.contribution import LatestRounds
from camvo.state.exploration import ExplorationRound, ExplorationSums, VotePattern

LABELS = ("no", "yes")
ALIKE = np.full(5, 0.95)
MIXED = np.array([0.95, 0.95, 0.6, 0.6, 0.6])
ARMS = ("a", "b", "c", "d", "e")


def regret(votes, labels=LABELS):
    return regret_of(rows_of(votes, len(labels)), ARMS, labels, range(5))


def mean_regret(accuracy, items, labels=LABELS):
    draws = (draw_votes(accuracy, labels=len(labels), items=items, seed=seed)[0] for seed in range(6))
    return np.mean([regret(votes, labels) for votes in draws])


def test_where_all_arms_always_agree_nothing_can_be_lost():
    truth = np.random.default_rng(0).integers(2, size=60)
    assert regret(np.tile(truth[:, None], 5)) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("labels", [LABELS, ("a", "b", "c")])
def test_more_can_be_lost_where_few_arms_are_good_than_where_all_are(labels):
    assert mean_regret(MIXED, 60, labels) > 2.0 * mean_regret(ALIKE, 60, labels)


def test_less_is_lost_after_more_rounds():
    assert mean_regret(MIXED, 1000) < 0.7 * mean_regret(MIXED, 60)


def test_it_is_the_same_each_time():
    votes, _ = draw_votes(MIXED, labels=2, items=60)
    assert regret(votes) == regret(votes[::-1])


def test_rounds_that_stopped_early_have_no_part_in_it():
    rows = rows_of(draw_votes(MIXED, labels=2, items=60)[0], 2)
    partial = replace(rows, partial=np.full(len(rows.rows), 7.0))
    assert regret_of(partial, ARMS, LABELS, range(5)) == regret_of(rows, ARMS, LABELS, range(5))


def test_a_few_rounds_say_nothing():
    assert regret_of(no_rounds(5), ARMS, LABELS, range(5)) is None
    assert regret(draw_votes(MIXED, labels=2, items=14)[0]) is None
    assert regret(draw_votes(MIXED, labels=2, items=15)[0]) is not None


# -- the fit


def fit(explored, **options):
    evidence = evidence_of(draw_votes(MIXED, labels=2, items=60)[0], ARMS, LABELS)
    prices = dict.fromkeys(ARMS, 0.0)
    return JointFit.fit(evidence, LatestRounds(), LABELS, prices, explored=explored or evidence, **options)


def test_a_fit_knows_the_regret_of_the_rounds_that_asked_everyone():
    votes, _ = draw_votes(MIXED, labels=2, items=60)
    assert fit(evidence_of(votes, ARMS, LABELS)).regret == regret(votes)


def test_it_is_not_known_where_labels_are_not_worth_the_same():
    assert fit(None, losses=(("no", 1.0), ("yes", 4.0))).regret is None


# -- the pace


def test_without_a_regret_36_more_rounds_raise_the_square_by_36_each():
    assert exploration_pace(None, 100.0) == FIRST


@pytest.mark.parametrize("loss", [10.0, 30.0, 60.0])
def test_a_regret_that_falls_with_the_rounds_leads_to_the_least_sum_of_both(loss):
    """Of all E, ½·E + n·a/E is least at √(2·a·n)."""
    everyone, tasks = 1.0, 20_000
    for _ in range(tasks):
        everyone += min(exploration_pace(loss / everyone, everyone) / 2.0 / everyone, 1.0)
    costs = {number: number / 2.0 + tasks * loss / number for number in range(1, 5000)}
    assert everyone == pytest.approx(min(costs, key=lambda number: costs[number]), rel=0.02)


def test_the_pace_has_bounds():
    assert exploration_pace(0.0, 100.0) == LEAST_PACE
    assert exploration_pace(1e9, 100.0) == _MOST_PACE


def test_all_arms_are_asked_the_more_often_the_more_is_lost():
    rates = [Joint().exploration_rate(100, regret=lost) for lost in (0.0, 0.15, 0.45, math.inf)]
    assert rates == [0.05, 0.15, 0.45, 0.72]


def test_an_earlier_project_counts_as_rounds():
    assert Joint().exploration_rate(50, 50.0, 0.3) == Joint().exploration_rate(100, 0.0, 0.3)


# -- the rounds of a state


def round_of(*, everyone):
    pattern = VotePattern.of(("a", "b"), {"a": "no", "b": "yes"}, everyone=everyone, labels=LABELS)
    return ExplorationRound(pattern, None)


def test_a_state_keeps_the_rounds_that_asked_everyone_apart_and_renews_them_at_30_per_cent_more():
    sums, seen = ExplorationSums(), []
    for _ in range(10):
        sums.add(round_of(everyone=False), 1)
        sums.add(round_of(everyone=True), 1)
        seen.append(sums.explored.rounds)
    assert seen == [1, 2, 3, 4, 4, 6, 6, 8, 8, 8]
    assert all(pattern.everyone for pattern in sums.explored.patterns)


def test_they_survive_a_snapshot_and_are_forgotten_with_the_stops():
    sums = ExplorationSums()
    for _ in range(10):
        sums.add(round_of(everyone=True), 1)
    again = ExplorationSums.from_list(sums.to_list())
    assert again.explored.patterns == sums.explored.patterns
    assert again.explored.rounds == 8
    sums.forget_stops()
    assert not sums.explored.patterns
