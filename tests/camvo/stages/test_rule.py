from __future__ import annotations

import json

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from camvo.stages.rule import Rule, is_certain, is_complete
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
def test_a_certificate_promises_the_label_of_all_whatever_the_others_say_or_fail_to(
    weights, votes, lower, asked
):
    seen = canonical(SILENT if vote is None else vote for vote in votes[:asked])
    assume(is_certain(seen, weights))
    assert label(votes[:asked], weights, lower) == label(votes, weights, lower)


@given(weights_of, votes_of, weights_of, st.integers(0, 5))
def test_without_a_certificate_the_others_can_bring_about_a_tie_or_another_label(
    weights, votes, lower, asked
):
    seen = canonical(SILENT if vote is None else vote for vote in votes[:asked])
    assume(not is_certain(seen, weights))
    totals = {
        name: sum(w for vote, w in zip(votes[:asked], weights, strict=False) if vote == name)
        for name in LABELS
    }
    ahead, behind = sorted(totals.values(), reverse=True)[:2]
    assert behind + sum(weights[asked:]) >= ahead - 1e-11


def test_nothing_is_certain_before_anyone_has_voted():
    assert not is_certain((), (0.5, 0.5))
    assert not is_certain((SILENT, SILENT), (0.5, 0.5))


def test_an_even_split_is_not_certain_and_a_hair_more_is_not_either():
    assert not is_certain((0,), (0.5, 0.5))
    assert not is_certain((0,), (0.5 + 1e-12, 0.5))
    assert is_certain((0,), (0.6, 0.5))


def test_what_was_never_seen_is_asked_on_half_the_way_and_at_last_to_the_end():
    rule = Rule(2, ({(0, 1): 3}, {}), certain=False)
    assert rule.after(0, (0, 1), 7) == 3
    assert rule.after(0, (0, 0), 7) == 5
    assert rule.after(1, (0, 0, 1), 7) == 7


def test_a_certain_rule_ends_with_everyone():
    assert Rule(2, ({}, {(0, 1, 1): 4}), certain=True).after(1, (0, 1, 1), 7) == 7


def test_a_rule_is_json():
    described = Rule(2, ({(0, -1): 3},), certain=False, error=0.01, price=5.0).describe()
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
def test_a_round_that_ended_early_is_complete_where_it_is_certain_at_these_weights(weights, complete):
    assert is_complete((0, 0, UNASKED, UNASKED), weights) == complete


def test_a_round_that_asked_everyone_is_complete():
    assert is_complete((0, 1, SILENT, 0), (1.0, 1.0, 1.0, 1.0))
