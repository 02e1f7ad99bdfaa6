from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.state.vote_patterns import SILENT, UNASKED, canonical
from camvo.weights.one_coin import accuracies, complete_rounds, log_odds

TRUE = np.array([0.92, 0.85, 0.7, 0.6, 0.3])


def drawn(n, labels, seed=0, silence=0.0):
    rng = np.random.default_rng(seed)
    truth = rng.integers(labels, size=n)
    right = rng.random((n, len(TRUE))) < TRUE
    wrong = (truth[:, None] + rng.integers(1, labels, size=right.shape)) % labels
    votes = np.where(right, truth[:, None], wrong)
    votes[rng.random(votes.shape) < silence] = SILENT
    return Counter(canonical(row) for row in votes.tolist())


@pytest.mark.parametrize(("labels", "silence"), [(4, 0.0), (20, 0.0), (4, 0.2)])
def test_accuracies_are_found_without_a_label_where_errors_are_independent(labels, silence):
    estimated = accuracies(drawn(4000, labels, silence=silence), np.ones(5), labels)
    assert estimated == pytest.approx(TRUE, abs=0.04)


def test_without_evidence_a_dearer_model_weighs_more():
    assert np.all(np.diff(accuracies({}, np.array([1.0, 2.0, 5.0, 9.0]), 3)) > 0.0)


def test_without_evidence_models_of_the_same_price_weigh_the_same():
    assert len(set(accuracies({}, np.zeros(4), 3))) == 1


def test_evidence_overrules_the_price():
    estimated = accuracies(drawn(400, 4), np.arange(1.0, 6.0), 4)
    assert estimated[0] > estimated[2] > estimated[4]


def test_counts_are_as_good_as_repeated_rounds():
    votes = drawn(50, 3)
    doubled = {groups: 2 * count for groups, count in votes.items()}
    more = votes + votes
    assert accuracies(doubled, np.ones(5), 3).tolist() == accuracies(dict(more), np.ones(5), 3).tolist()


def test_rounds_in_which_nobody_voted_say_nothing():
    silent = {(SILENT,) * 5: 3}
    assert np.all(np.isfinite(accuracies(silent, np.ones(5), 3)))


def test_a_round_that_ended_early_is_replaced_by_full_rounds_that_began_alike():
    early, agreed, other = (0, 0, UNASKED), (0, 0, 0), (0, 0, 1)
    rows = {early: 8, agreed: 3, other: 1, (0, 1, 1): 5}
    assert complete_rounds(rows, {agreed: 3, other: 1}) == {agreed: 9.0, other: 3.0, (0, 1, 1): 5.0}


def test_a_round_that_ended_early_stays_as_it_is_if_no_full_round_began_alike():
    assert complete_rounds({(0, 0, UNASKED): 8}, {(0, 1, 1): 2}) == {(0, 0, UNASKED): 8.0}


def test_completed_rounds_give_the_accuracies_of_full_rounds_but_late_rounds_alone_do_not():
    """The trap: certain rounds end after three of five, the others go on; one in ten asks everyone anyway."""
    rng = np.random.default_rng(1)
    rows, everyone = Counter(), Counter()
    for groups in drawn(6000, 4).elements():
        by_chance = rng.random() < 0.1
        ends = len(set(groups[:3])) == 1 and not by_chance
        rows[(*groups[:3], UNASKED, UNASKED) if ends else groups] += 1
        everyone[groups] += by_chance
    late = {groups: count for groups, count in rows.items() if UNASKED not in groups}
    estimated, biased = (accuracies(some, np.ones(5), 4) for some in (complete_rounds(rows, +everyone), late))
    assert estimated == pytest.approx(TRUE, abs=0.05)
    assert np.abs(biased - TRUE).max() > 0.1


def chance_to_be_right(weights, right):
    """Of the weighted vote of independent arms on two labels, half of the ties counted; over all outcomes."""
    outcomes = np.array(list(itertools.product([1.0, -1.0], repeat=len(right))))
    chances = np.where(outcomes > 0.0, right, 1.0 - right).prod(axis=1)
    lead = outcomes @ weights
    return chances[lead > 1e-12].sum() + chances[np.abs(lead) <= 1e-12].sum() / 2.0


@given(
    st.lists(st.floats(0.51, 0.99), min_size=1, max_size=6),
    st.lists(st.floats(0.0, 5.0), min_size=6, max_size=6),
)
def test_no_weights_are_right_more_often_than_log_odds_between_two_labels(right, other):
    right, other = np.array(right), np.array(other[: len(right)])
    assert chance_to_be_right(log_odds(right), right) >= chance_to_be_right(other, right) - 1e-9


def test_an_arm_that_is_wrong_more_often_than_right_decides_ties_only():
    weights = log_odds(np.array([0.6, 0.4, 0.3, 0.2]))
    assert weights[0] > weights[1:].sum() > 0.0
