from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.spans import Span, _span_f1, _SpanColumns, read_spans, span_overlap, write_spans


def span(labels="AB", last=12):
    bounds = st.tuples(st.integers(0, last), st.integers(0, last)).filter(lambda pair: pair[0] != pair[1])
    return st.builds(lambda pair, label: Span(min(pair), max(pair), label), bounds, st.sampled_from(labels))


sets = st.sets(span(), max_size=4).map(lambda spans: tuple(sorted(spans)))


def by_trying_all_matchings(left, right):
    if len(left) > len(right):
        left, right = right, left
    if not left:
        return float(not right)
    best = max(
        sum(span_overlap(*pair) for pair in zip(left, chosen, strict=True))
        for chosen in permutations(right, len(left))
    )
    return 2.0 * best / (len(left) + len(right))


@given(sets)
@settings(deadline=None)
def test_a_vote_is_read_as_it_was_written(spans):
    assert read_spans(write_spans(reversed(spans))) == spans


@given(sets, sets)
@settings(deadline=None)
def test_one_set_of_spans_has_one_text(left, right):
    assert (write_spans(left) == write_spans(right)) == (left == right)


@given(sets, sets)
@settings(deadline=None)
def test_f1_is_that_of_the_best_matching(left, right):
    assert _span_f1(left, right) == pytest.approx(by_trying_all_matchings(left, right), abs=1e-12)


@given(sets, sets)
@settings(deadline=None)
def test_f1_is_symmetric_and_1_for_equal_sets_alone(left, right):
    assert _span_f1(left, right) == pytest.approx(_span_f1(right, left), abs=1e-12)
    assert 0.0 <= _span_f1(left, right) <= 1.0
    assert (_span_f1(left, right) == 1.0) == (left == right)


@given(span("A"), span("A"))
@settings(deadline=None)
def test_overlap_is_the_shared_share_of_the_characters(left, right):
    left_characters, right_characters = set(range(*left[:2])), set(range(*right[:2]))
    assert span_overlap(left, right) == len(left_characters & right_characters) / len(
        left_characters | right_characters
    )


@given(span(), sets)
@settings(deadline=None)
def test_the_overlaps_with_many_spans_are_those_with_each(one, others):
    assert _SpanColumns(others).overlaps(one).tolist() == [span_overlap(one, other) for other in others]


def test_spans_of_two_labels_have_nothing_in_common():
    assert span_overlap(Span(0, 5, "A"), Span(0, 5, "B")) == 0.0


def test_half_a_span_is_worth_half():
    assert _span_f1([Span(0, 10, "A")], [Span(0, 5, "A")]) == 0.5


def test_a_span_too_many_costs_precision_and_one_too_few_recall():
    assert _span_f1([Span(0, 5, "A"), Span(7, 9, "A")], [Span(0, 5, "A")]) == pytest.approx(2 / 3)
    assert _span_f1([], [Span(0, 5, "A")]) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "none",
        "{}",
        "3",
        "null",
        "[3]",
        "[[0,1]]",
        '[["0",1,"A"]]',
        '[[0,1.0,"A"]]',
        '[[false,1,"A"]]',
        "[[0,1,null]]",
        '[[1,1,"A"]]',
        '[[2,1,"A"]]',
        '[[-1,1,"A"]]',
        "[" * 100_000,
    ],
    ids=lambda text: text[:30],
)
def test_text_that_is_not_a_set_of_spans_is_refused_with_the_form(text):
    with pytest.raises(InvalidParameterError, match=r"JSON array of \[start, end, label\]"):
        read_spans(text)


@pytest.mark.parametrize(
    "text",
    ['[[0, 2, "Ä"], [3, 4, "B"]]', '[[0,2,"\\u00c4"],[3,4,"B"]]', '[[3,4,"B"],[0,2,"Ä"],[3,4,"B"]]'],
    ids=["blanks", "escapes", "order and a duplicate"],
)
def test_every_json_form_of_a_set_of_spans_is_read(text):
    assert read_spans(text) == (Span(0, 2, "Ä"), Span(3, 4, "B"))
