from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.spans import Span, SpanVote, _expected_f1, read_spans, span_overlap, write_spans

LABELS = ("A", "B")
VOTE = SpanVote()


def spans(*entries):
    return tuple(Span(*entry) for entry in entries)


def ballot(votes, weights=None, lower=None, correctness=None):
    arms = [f"arm {position}" for position in range(len(votes))]
    columns = (weights or [1.0] * len(arms), lower or [0.5] * len(arms), correctness or [0.8] * len(arms))
    return Ballot(
        dict(zip(arms, map(write_spans, votes), strict=True)),
        *(dict(zip(arms, column, strict=True)) for column in columns),
    )


def answer(votes, *columns, **named):
    return read_spans(VOTE.aggregate(ballot(votes, *columns, **named), LABELS)[0])


def score(votes, *columns, **named):
    (chance,) = VOTE.aggregate(ballot(votes, *columns, **named), LABELS)[1].values()
    return chance


any_span = st.tuples(st.integers(0, 14), st.integers(1, 6), st.sampled_from(LABELS)).map(
    lambda drawn: Span(drawn[0], drawn[0] + drawn[1], drawn[2])
)


def flat(drawn):
    """Without the spans that overlap an earlier one of the same label, as annotators mark a text."""
    flattened = []
    for span in sorted(drawn):
        if all(span_overlap(span, other) == 0.0 for other in flattened):
            flattened.append(span)
    return tuple(flattened)


any_vote = st.sets(any_span, max_size=4).map(lambda drawn: tuple(sorted(drawn)))
flat_vote = st.sets(any_span, max_size=4).map(flat)
weight = st.sampled_from([0.25, 0.5, 1.0, 1.5, 2.0])
cast = st.lists(st.tuples(flat_vote, weight, st.sampled_from([0.1, 0.4, 0.9])), min_size=1, max_size=5)


@given(any_vote, st.integers(1, 4))
@settings(deadline=None)
def test_what_all_arms_say_is_the_answer(vote, arms):
    assert answer([vote] * arms) == vote


@given(cast)
@settings(deadline=None)
def test_a_span_that_a_majority_marked_exactly_alike_is_in_the_answer(drawn):
    votes, weights, _ = zip(*drawn, strict=True)
    in_answer = answer(votes, list(weights))
    for span in {span for vote in votes for span in vote}:
        if sum(w for vote, w in zip(votes, weights, strict=True) if span in vote) > sum(weights) / 2:
            assert span in in_answer


@given(cast)
@settings(deadline=None)
def test_every_span_of_the_answer_is_near_those_of_a_majority(drawn):
    votes, weights, lower = zip(*drawn, strict=True)
    for span in answer(votes, list(weights), list(lower)):
        touching = [any(span_overlap(span, own) > 0.0 for own in vote) for vote in votes]
        assert sum(w for w, touches in zip(weights, touching, strict=True) if touches) >= sum(weights) / 2


@given(cast, st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_the_arms_changes_nothing(drawn, random):
    shuffled = random.sample(drawn, len(drawn))
    (left, right) = (tuple(map(list, zip(*votes, strict=True))) for votes in (drawn, shuffled))
    assert answer(*left) == answer(*right)
    assert score(*left) == pytest.approx(score(*right), abs=1e-12)


@given(cast)
@settings(deadline=None)
def test_the_labels_do_not_influence_each_other(drawn):
    votes, weights, lower = map(list, zip(*drawn, strict=True))
    apart = [
        span
        for label in LABELS
        for span in answer([tuple(s for s in vote if s.label == label) for vote in votes], weights, lower)
    ]
    assert answer(votes, weights, lower) == tuple(sorted(apart))


def place_by_hand(votes, weights):
    """The answer where no arm marks more than one span, straight from the definition."""
    marked = [vote[0] if vote else None for vote in votes]
    winners, total = [], sum(weights)
    for span in sorted({span for span in marked if span}):
        exact = [i for i, own in enumerate(marked) if own == span]
        if sum(weights[i] for i in exact) > total / 2:
            winners.append(span)
            marked = [None if i in exact else own for i, own in enumerate(marked)]
    while any(marked):
        members = {
            span: [i for i, own in enumerate(marked) if own and span_overlap(span, own) > 0.5]
            for span in set(marked) - {None}
        }
        best = min(
            members,
            key=lambda span: (
                -sum(weights[i] for i in members[span]),
                -round(sum(weights[i] * span_overlap(span, marked[i]) for i in members[span]), 9),
                span.start,
                span.end,
            ),
        )
        chosen = members[best]
        if sum(weights[i] for i in chosen) > total / 2:
            copies = [marked[i] for i in chosen for _ in range(int(4 * weights[i]))]
            middle = (len(copies) - 1) // 2
            winners.append(
                Span(
                    sorted(s.start for s in copies)[middle], sorted(s.end for s in copies)[middle], best.label
                )
            )
        marked = [None if i in chosen else own for i, own in enumerate(marked)]
    return tuple(sorted(winners))


@given(st.lists(st.tuples(st.sets(any_span, max_size=1).map(tuple), weight), min_size=1, max_size=5))
@settings(deadline=None)
def test_with_a_span_an_arm_the_answer_is_the_one_made_by_hand(drawn):
    votes, weights = map(list, zip(*drawn, strict=True))
    assert answer(votes, weights, [0.0] * len(votes)) == place_by_hand(votes, weights)


def test_boundaries_are_weighted_medians():
    votes = [spans((0, 10, "A")), spans((1, 11, "A")), spans((2, 12, "A"))]
    assert answer(votes) == spans((1, 11, "A"))
    assert answer(votes, [1.0, 1.0, 3.0]) == spans((2, 12, "A"))


def test_a_span_of_a_minority_is_not_in_the_answer():
    assert answer([spans((0, 5, "A"), (7, 9, "B")), spans((0, 5, "A")), ()]) == spans((0, 5, "A"))


def test_an_answer_may_have_no_spans():
    assert answer([(), (), spans((0, 5, "A"))]) == ()


def test_half_of_the_weight_is_enough_with_more_than_half_of_the_tie_breakers():
    votes = [spans((0, 5, "A")), spans((7, 9, "B"))]
    assert answer(votes, [1.0, 1.0], [0.6, 0.5]) == votes[0]
    assert answer(votes, [1.0, 1.0], [0.5, 0.5]) == ()


def test_without_weights_the_lower_bounds_weigh_the_votes():
    votes = [spans((0, 5, "A")), spans((7, 9, "B"))]
    assert answer(votes, [0.0, 0.0], [0.2, 0.3]) == votes[1]
    assert answer([votes[0]] * 2 + [votes[1]], [0.0] * 3, [0.0] * 3) == votes[0]


def test_nested_spans_of_two_labels_both_stay():
    vote = spans((0, 20, "A"), (5, 10, "B"))
    assert answer([vote, vote, ()]) == vote


def by_enumeration(closeness, chances):
    total = 0.0
    for truth in product((0, 1), repeat=len(chances)):
        weight = np.prod([p if x else 1.0 - p for x, p in zip(truth, chances, strict=True)])
        matched = sum(b * x for b, x in zip(closeness, truth, strict=False))
        size = len(closeness) + sum(truth)
        total += weight * (2.0 * matched / size if size else 1.0)
    return total


@given(st.lists(st.tuples(st.floats(0.5, 1.0), st.floats(0.0, 1.0)), max_size=7), st.integers(0, 7))
@settings(deadline=None)
def test_the_score_is_the_mean_f1_over_all_possible_truths(drawn, stay):
    assume(drawn)
    closeness, chances = zip(*drawn, strict=True)
    expected = by_enumeration(closeness[:stay], chances)
    assert _expected_f1(np.array(closeness[:stay]), np.array(chances)) == pytest.approx(expected, abs=1e-9)


def test_the_score_rises_with_agreement_on_the_place_and_on_its_boundaries():
    same, near = spans((0, 10, "A")), spans((0, 9, "A"))
    assert score([same, same, ()]) < score([same, near, near]) < score([same, same, same]) < 1.0
    assert score([(), (), same]) < score([(), (), ()]) < 1.0


def test_an_arm_with_other_boundaries_counts_as_a_vote_for_the_place():
    same, near, elsewhere = (spans((start, start + 10, "A")) for start in (0, 1, 40))
    assert answer([same, same, near]) == answer([same, same, elsewhere]) == same
    assert score([same, same, near]) > score([same, same, ()]) > score([same, same, elsewhere])


def test_the_score_of_an_answer_stays_a_probability_with_hundreds_of_spans():
    vote = tuple(Span(10 * place, 10 * place + 7, "A") for place in range(300))
    assert 0.9 < score([vote, vote, vote]) <= 1.0


def test_the_reward_is_f1():
    assert VOTE.reward('[[0,10,"A"]]', '[[0,5,"A"]]') == 0.5
    assert VOTE.reward("[]", "[]") == 1.0


def test_a_place_holds_one_of_the_labels_or_nothing():
    assert VOTE.guess(("A",)) == 0.5
    assert VOTE.guess(("A", "B", "C")) == 0.25
    with pytest.raises(InvalidParameterError):
        VOTE.guess(())


def test_a_label_outside_the_label_set_is_refused():
    with pytest.raises(InvalidParameterError, match="arm 1"):
        answer([(), spans((0, 5, "C"))])


def test_no_vote_is_refused():
    with pytest.raises(InvalidParameterError, match="no vote"):
        VOTE.aggregate(ballot([]), LABELS)
