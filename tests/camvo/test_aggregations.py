from __future__ import annotations

import json

import pytest

from camvo import aggregations
from camvo.aggregation import LABEL_VOTE
from camvo.errors import InvalidParameterError
from camvo.numeric import NumericVote
from camvo.open_numeric import OpenNumericVote
from camvo.open_vote import OpenVote
from camvo.ranking import RankingVote
from camvo.span_vote import SpanVote
from camvo.subset import SubsetVote

EACH = [
    LABEL_VOTE,
    NumericVote(1.0, 5.0, step=1.0),
    RankingVote("borda"),
    SpanVote(),
    SubsetVote(3),
    OpenVote("words"),
    OpenNumericVote(low=0.0),
]
ABC = ("a", "b", "c")


def test_every_aggregation_that_has_a_name_is_here():
    assert {type(one) for one in EACH} == set(aggregations.NAMED.values())


@pytest.mark.parametrize("aggregation", EACH, ids=list(aggregations.NAMED))
def test_a_description_is_json_that_is_restored(aggregation):
    described = aggregations.describe(aggregation)
    assert aggregations.restore(json.loads(json.dumps(described, allow_nan=False))) == aggregation


def test_rounds_from_before_there_were_others_are_about_labels():
    assert aggregations.restore(None) is LABEL_VOTE


def test_an_unknown_name_and_an_unnamed_aggregation_are_refused():
    with pytest.raises(InvalidParameterError):
        aggregations.restore({"name": "seance"})
    with pytest.raises(InvalidParameterError):
        aggregations.describe(object())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("aggregation", "answers", "options", "together"),
    [
        (LABEL_VOTE, ["b", "a", "b"], ABC, "b"),
        (NumericVote(0.0, 10.0), ["2", "9", "3"], (), "3"),
        (NumericVote(0.0, 10.0), ["2", "4"], (), "3"),
        (RankingVote("borda"), ['["a","b","c"]', '["b","a","c"]', '["a","c","b"]'], ABC, '["a","b","c"]'),
        (SubsetVote(3), ['["a"]', '["a","b"]', '["a","b","c"]'], ABC, '["a","b"]'),
        (SpanVote(), ['[[0,5,"a"]]', '[[1,5,"a"],[7,9,"b"]]', '[[2,5,"a"]]'], ABC, '[[1,5,"a"]]'),
        (OpenVote("words"), ["Ada", "ada.", "Grace"], (), "Ada"),
        (OpenNumericVote(), ["100", "300", "200"], (), "200"),
    ],
)
def test_several_people_are_counted_as_votes_of_one_weight(aggregation, answers, options, together):
    assert aggregations.consensus(aggregation, answers, options) == together


@pytest.mark.parametrize(
    ("aggregation", "answers", "options"),
    [
        (LABEL_VOTE, ["a", "b"], ABC),
        (LABEL_VOTE, ["a", "b", "c"], ABC),
        (SubsetVote(3), ['["a"]', '["a","b"]'], ABC),
        (RankingVote("borda"), ['["a","b","c"]', '["c","b","a"]'], ABC),
        (OpenVote("exact"), ["2024", "2023"], ()),
        (OpenVote("words"), ["Ada", "Grace"], ()),
        (SpanVote(), ['[[0,5,"a"]]', "[]"], ABC),
        (LABEL_VOTE, [], ABC),
    ],
)
def test_people_who_are_tied_say_nothing(aggregation, answers, options):
    assert aggregations.consensus(aggregation, answers, options) is None


def test_two_spellings_of_one_answer_are_no_tie():
    assert aggregations.consensus(OpenVote("words"), ["new york", "New York"], ()) in {"new york", "New York"}


@pytest.mark.parametrize(
    ("aggregation", "answer", "options"),
    [
        (LABEL_VOTE, "d", ABC),
        (LABEL_VOTE, None, ABC),
        (NumericVote(0.0, 10.0), "11", ()),
        (RankingVote("borda"), '["a","b"]', ABC),
        (SpanVote(), '[[0,5,"d"]]', ABC),
        (SubsetVote(3), '["d"]', ABC),
        (OpenVote("words"), "…", ()),
        (OpenNumericVote(high=0.0), "1", ()),
    ],
)
def test_an_answer_that_the_question_does_not_allow_does_not_fit(aggregation, answer, options):
    assert not aggregations.fits(aggregation, answer, options)
