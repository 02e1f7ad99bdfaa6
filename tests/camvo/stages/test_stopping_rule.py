from __future__ import annotations

import json

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from camvo.stages.stopping_rule import StoppingRule, is_certain, is_complete
from camvo.state.vote_patterns import SILENT, UNASKED, canonical
from camvo.votes.labels import weighted_vote

LABELS = ("x", "y", "z")
ARMS = tuple("abcdef")
weights_of = st.lists(
    st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.0 + 1e-13])),
    min_size=6,
    max_size=6,
)
votes_of = st.lists(st.sampled_from([*LABELS, None]), min_size=6, max_size=6)


def label(votes, weights, lower):
    cast = {arm: vote for arm, vote in zip(ARMS, votes, strict=False) if vote is not None}
    if not cast:
        return None
    return weighted_vote(
        cast,
        dict(zip(ARMS, weights, strict=True)),
        LABELS,
        dict(zip(ARMS, lower, strict=True)),
    )


@given(weights_of, votes_of, weights_of, st.integers(1, 6))
@example([0.1] * 6, ["x", "x", "x", None, "y", "y"], [0.5] * 6, 4)
def test_a_certain_label_is_that_of_the_full_vote_whatever_the_others_vote_or_fail_to(
    weights, votes, lower, asked
):
    groups = canonical(SILENT if vote is None else vote for vote in votes[:asked])
    assume(is_certain(groups, weights))
    assert label(votes[:asked], weights, lower) == label(votes, weights, lower)


@given(weights_of, votes_of, weights_of, st.integers(0, 5))
def test_if_the_label_is_not_certain_the_others_can_cause_a_tie_or_another_label(
    weights, votes, lower, asked
):
    groups = canonical(SILENT if vote is None else vote for vote in votes[:asked])
    assume(not is_certain(groups, weights))
    totals = {
        name: sum(w for vote, w in zip(votes[:asked], weights, strict=False) if vote == name)
        for name in LABELS
    }
    leader, runner_up = sorted(totals.values(), reverse=True)[:2]
    assert runner_up + sum(weights[asked:]) >= leader - 1e-11


def test_nothing_is_certain_before_the_first_vote():
    assert not is_certain((), (0.5, 0.5))
    assert not is_certain((SILENT, SILENT), (0.5, 0.5))


def test_neither_an_even_split_nor_a_lead_within_rounding_is_certain():
    assert not is_certain((0,), (0.5, 0.5))
    assert not is_certain((0,), (0.5 + 1e-12, 0.5))
    assert is_certain((0,), (0.6, 0.5))


def test_an_unseen_pattern_goes_half_of_the_way_and_in_the_last_stage_all_of_it():
    rule = StoppingRule(2, ({(0, 1): 3}, {}), certain=False)
    assert rule.after(0, (0, 1), 7) == 3
    assert rule.after(0, (0, 0), 7) == 5
    assert rule.after(1, (0, 0, 1), 7) == 7


def test_a_certain_rule_asks_all_arms_in_the_last_stage():
    assert StoppingRule(2, ({}, {(0, 1, 1): 4}), certain=True).after(1, (0, 1, 1), 7) == 7


def test_the_description_of_a_rule_is_json():
    described = StoppingRule(2, ({(0, -1): 3},), certain=False, error=0.01, price=5.0).describe()
    assert json.loads(json.dumps(described)) == {
        "first": 2,
        "moves": [{"0, -1": 3}],
        "certain": False,
        "error": 0.01,
        "price": 5.0,
    }


@pytest.mark.parametrize(
    ("weights", "complete"), [((1.0, 1.0, 1.0, 1.0), False), ((2.0, 2.0, 1.0, 1.0), True)]
)
def test_a_round_that_ended_early_is_complete_if_it_is_certain_at_these_weights(weights, complete):
    assert is_complete((0, 0, UNASKED, UNASKED), weights) == complete


def test_a_round_that_asked_all_arms_is_complete():
    assert is_complete((0, 1, SILENT, 0), (1.0, 1.0, 1.0, 1.0))
